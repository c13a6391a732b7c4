-- SPDX-License-Identifier: Apache-2.0
-- What a person does in neovim, with what came of it written to the file $AURAE_TEST_RESULT.
local result = {}
local ok, why = pcall(function()
  vim.opt.runtimepath:append(os.getenv("AURAE_TEST_EDITOR"))
  vim.cmd("filetype on")
  local aurae = require("aurae")
  aurae.setup({ cmd = { os.getenv("AURAE_TEST_SERVER"), "serve-neovim" } })
  vim.cmd("edit " .. os.getenv("AURAE_TEST_FILE"))
  local function wait(what, holds)
    assert(vim.wait(60000, holds, 20), "waited in vain: " .. what)
  end
  local function ask(method, line, column, more)
    local params = vim.tbl_extend("force", {
      textDocument = vim.lsp.util.make_text_document_params(0),
      position = { line = line, character = column },
    }, more or {})
    local answers, failed = vim.lsp.buf_request_sync(0, method, params, 60000)
    assert(answers, failed)
    for _, answer in pairs(answers) do
      assert(answer.error == nil, vim.inspect(answer.error))
      return answer.result
    end
  end
  wait("findings", function() return #vim.diagnostic.get(0) > 0 end)
  result.findings = vim.tbl_map(function(it)
    return { code = it.code, line = it.lnum, message = it.message }
  end, vim.diagnostic.get(0))

  -- The repair that is offered is applied.
  local range = { start = { line = 0, character = 0 }, ["end"] = { line = 0, character = 80 } }
  local actions = ask("textDocument/codeAction", 0, 0,
    { range = range, context = { diagnostics = {} } })
  result.repair = actions[1].title
  vim.lsp.util.apply_workspace_edit(actions[1].edit, "utf-16")
  result.repaired = vim.api.nvim_buf_get_lines(0, 0, 1, false)[1]
  wait("no findings", function() return #vim.diagnostic.get(0) == 0 end)

  -- Half-typed text: the change goes as a difference, in UTF-16.
  vim.api.nvim_buf_set_lines(0, -1, -1, false, { 'print("😀"); runtime.' })
  local last = vim.api.nvim_buf_line_count(0) - 1
  local items = ask("textDocument/completion", last, 21)
  result.completed = vim.tbl_map(function(it) return it.label end, items.items or items)
  vim.api.nvim_buf_set_lines(0, -2, -1, false, {})

  result.declared = ask("textDocument/definition", 0, 26).uri
  result.hover = ask("textDocument/hover", 0, 16).contents.value
  local edit = ask("textDocument/rename", 1, 6, { newName = "answer" })
  vim.lsp.util.apply_workspace_edit(edit, "utf-16")
  local edits = ask("textDocument/formatting", 0, 0,
    { options = { tabSize = 2, insertSpaces = true } })
  vim.lsp.util.apply_text_edits(edits, 0, "utf-16")
  result.text = table.concat(vim.api.nvim_buf_get_lines(0, 0, -1, false), "\n")
end)
result.failed = not ok and tostring(why) or nil
local file = assert(io.open(os.getenv("AURAE_TEST_RESULT"), "w"))
file:write(vim.json and vim.json.encode(result) or vim.fn.json_encode(result))
file:close()
vim.cmd("qall!")
