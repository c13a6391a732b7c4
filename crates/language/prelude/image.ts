// SPDX-License-Identifier: Apache-2.0
// An image by its name, to be said once and used by several cells and pods. The node brings it when
// what uses it is run; a plan shows it as a field of that.

import { copy, isPlain, known, type Plain } from "./data.ts";

/** When the image is asked for at its registry. */
export type ImagePull = "always" | "if_not_present" | "never";

/** An OCI image: data for the containers of pods and the roots of cells. */
export class Image {
  /** As for `docker`: `"nginx:1.25"`, `"registry.example/team/web@sha256:…"`. */
  readonly reference: string;
  /** Absent: as the node does without being told. */
  readonly pull: ImagePull | undefined;

  constructor(reference: string, options: { pull?: ImagePull } = {}) {
    if (typeof known(reference) !== "string" || reference === "") {
      throw new TypeError('new Image(reference): it needs a name, such as "nginx:1.25"');
    }
    this.reference = reference;
    this.pull = options.pull;
    Object.freeze(this);
  }

  /** A container of a pod: `new Pod({ name, containers: [nginx.Container({ name: "app" })] })`. */
  Container(data: pod.Container): pod.Container {
    return within(this, "Container", data) as unknown as pod.Container;
  }

  /** The root of a cell: `new Cell({ name: "web", container: nginx.Root() })`. */
  Root(data: runtime.Container = {}): runtime.Container {
    return within(this, "Root", data) as unknown as runtime.Container;
  }

  /** Its name. */
  toString(): string {
    return this.reference;
  }
}

function within(image: Image, method: string, data: unknown): Plain {
  known(data);
  if (!isPlain(data)) throw new TypeError(`Image.${method}: expected a plain object`);
  if (data["image"] !== undefined) {
    throw new TypeError(`Image.${method}: its image is ${image.reference}, leave "image" out`);
  }
  const pull = image.pull === undefined ? {} : { pull: image.pull };
  return { ...copy(data), image: image.reference, ...pull };
}
