-- SPDX-License-Identifier: Apache-2.0
-- Neovim itself, headless, as the client of `aurae lsp`. Run by `./x test` as
--   AURAE_PATH=.../aurae nvim --headless -u NONE -i NONE --cmd "set rtp+=." -S test/client.lua
-- It ends Neovim with status 0 if all is as it should be, and says what isn't.
local aurae = require("aurae")
local program = os.getenv("AURAE_PATH") or "aurae"
local folder = vim.fn.tempname()

local function fail(text)
  io.stderr:write("neovim: " .. text .. "\n")
  vim.fn.delete(folder, "rf")
  vim.cmd("cquit 1")
end

local function must(condition, text)
  if not condition then
    fail(text)
  end
end

-- Waits for what the server does: bounded, and over as soon as it is so.
local function until_true(what, condition)
  if not vim.wait(20000, condition, 20) then
    fail("waited in vain for " .. what)
  end
end

local function write(name, lines)
  vim.fn.mkdir(folder, "p")
  vim.fn.writefile(lines, folder .. "/" .. name)
end

local function request(method, line, column, more)
  local parameters = vim.tbl_extend("force", {
    textDocument = vim.lsp.util.make_text_document_params(0),
    position = { line = line, character = column },
  }, more or {})
  local answers = vim.lsp.buf_request_sync(0, method, parameters, 20000)
  for _, answer in pairs(answers or {}) do
    must(answer.error == nil, method .. ": " .. vim.inspect(answer.error))
    return answer.result
  end
end

local function story()
  must(aurae.is_script("#!/usr/bin/env aurae"), "a script's first line is known")
  must(aurae.is_script("#!/usr/bin/env -S aurae --timeout 1s"), "with flags, too")
  must(not aurae.is_script("#!/usr/bin/env node"), "node's scripts aren't ours")

  write("aurae.json", { "{}" })
  write("parts.ts", { 'export const web = new Cell({ name: "web" });' })
  write("app.ts", { 'import { web } from "./parts.ts";', "await runtime.RunCell({ cel: {} });", "await runtime.Run(web);" })

  aurae.setup({ cmd = { program, "lsp" } })
  vim.cmd("filetype on")
  vim.cmd("edit " .. folder .. "/app.ts")
  vim.bo.filetype = "typescript"
  until_true("the server", function()
    return #vim.lsp.buf_get_clients(0) > 0
  end)
  until_true("the finding", function()
    return #vim.diagnostic.get(0) > 0
  end)

  local finding = vim.diagnostic.get(0)[1]
  must(finding.lnum == 1, "the finding is on the second line: " .. vim.inspect(finding))
  must(finding.message:find("cel"), "it names the field: " .. finding.message)

  local hover = request("textDocument/hover", 2, 15)
  must(vim.inspect(hover):find("Run"), "hover: " .. vim.inspect(hover))

  local definition = request("textDocument/definition", 2, 19)
  must(vim.inspect(definition):find("parts.ts"), "definition: " .. vim.inspect(definition))

  local completion = request("textDocument/completion", 2, 14)
  must(vim.inspect(completion):find("RunExecutable"), "completion has the API's methods")

  local clean = { "await runtime.RunCell({ cell: {} });" }
  vim.api.nvim_buf_set_lines(0, 1, 2, false, clean)
  until_true("the finding's end", function()
    return #vim.diagnostic.get(0) == 0
  end)

  print("neovim: all well")
end

local ok, problem = xpcall(story, debug.traceback)
if not ok then
  fail(problem)
end
vim.fn.delete(folder, "rf")
vim.cmd("qall!")
