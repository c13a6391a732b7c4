// SPDX-License-Identifier: Apache-2.0
// A name that the user may have meant.

/** `; did you mean "name"?` where one of the names is near, else nothing. */
export function didYouMean(written: string, names: readonly string[]): string {
  const most = Math.max(1, Math.floor(written.length / 3));
  let best: string | undefined;
  let least = most + 1;
  for (const name of names) {
    const far = Math.abs(name.length - written.length) > most ? least : distance(written, name);
    if (far < least) [best, least] = [name, far];
  }
  return best === undefined ? "" : `; did you mean ${JSON.stringify(best)}?`;
}

/** How many letters must be put, taken away or changed, whatever their case. */
function distance(from: string, to: string): number {
  const [a, b] = [from.toLowerCase(), to.toLowerCase()];
  let above = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let row = 1; row <= a.length; row++) {
    const line = [row];
    for (let column = 1; column <= b.length; column++) {
      const changed = (above[column - 1] ?? 0) + (a[row - 1] === b[column - 1] ? 0 : 1);
      line.push(Math.min(changed, (above[column] ?? 0) + 1, (line[column - 1] ?? 0) + 1));
    }
    above = line;
  }
  return above[b.length] ?? 0;
}
