-- SPDX-License-Identifier: Apache-2.0
-- Starts `aurae lsp` for programs of the Aurae language, for Neovim 0.7 and newer, without other plugins.
-- A TypeScript file is Aurae's below a folder with aurae.json, or by its first line; others are left alone.
local M = {}

local defaults = {
  -- The program and its arguments.
  cmd = { "aurae", "lsp" },
  -- Format on writing.
  format_on_save = false,
  -- Called as on_attach(client, buffer), for key maps.
  on_attach = nil,
}

local settings = defaults
-- Clients by root, where vim.lsp.start (0.8) doesn't look after that.
local clients = {}

--- The nearest folder upward from `file` that holds aurae.json.
function M.root_of(file)
  local folder = vim.fn.fnamemodify(file, ":p:h")
  while true do
    if vim.fn.filereadable(folder .. "/aurae.json") == 1 then
      return folder
    end
    local parent = vim.fn.fnamemodify(folder, ":h")
    if parent == folder then
      return nil
    end
    folder = parent
  end
end

--- Whether a first line asks for aurae.
function M.is_script(line)
  if line:sub(1, 2) ~= "#!" then
    return false
  end
  for word in line:sub(3):gmatch("%S+") do
    local name = word:match("([^/]+)$")
    if name == "aurae" then
      return true
    end
    if name ~= "env" and name ~= "-S" then
      return false
    end
  end
  return false
end

local function format_before_write(buffer)
  vim.api.nvim_create_autocmd("BufWritePre", {
    buffer = buffer,
    callback = function()
      if vim.lsp.buf.format then
        vim.lsp.buf.format({ bufnr = buffer, timeout_ms = 2000 })
      else
        vim.lsp.buf.formatting_sync(nil, 2000)
      end
    end,
  })
end

local function configuration(root)
  return {
    name = "aurae",
    cmd = settings.cmd,
    root_dir = root,
    on_attach = function(client, buffer)
      if settings.format_on_save then
        format_before_write(buffer)
      end
      if settings.on_attach then
        settings.on_attach(client, buffer)
      end
    end,
  }
end

--- Attaches the server to a buffer if its file is Aurae's; the client's id, or nil.
function M.attach(buffer)
  local file = vim.api.nvim_buf_get_name(buffer)
  local first = vim.api.nvim_buf_get_lines(buffer, 0, 1, false)[1] or ""
  local root = M.root_of(file)
  if not root and not M.is_script(first) then
    return nil
  end
  root = root or vim.fn.fnamemodify(file, ":p:h")
  if vim.lsp.start then
    return vim.lsp.start(configuration(root), { bufnr = buffer })
  end
  local id = clients[root]
  if not id or vim.lsp.client_is_stopped(id) then
    id = vim.lsp.start_client(configuration(root))
    clients[root] = id
  end
  -- Neovim has said why it can't be started.
  if not id then
    return nil
  end
  vim.lsp.buf_attach_client(buffer, id)
  return id
end

--- Sets the options and attaches to TypeScript buffers from now on.
function M.setup(options)
  settings = vim.tbl_extend("force", defaults, options or {})
  local group = vim.api.nvim_create_augroup("aurae", { clear = true })
  vim.api.nvim_create_autocmd("FileType", {
    group = group,
    pattern = "typescript",
    callback = function(event)
      M.attach(event.buf)
    end,
  })
  -- A script has no extension that Neovim knows.
  vim.api.nvim_create_autocmd({ "BufNewFile", "BufRead" }, {
    group = group,
    callback = function(event)
      local first = vim.api.nvim_buf_get_lines(event.buf, 0, 1, false)[1] or ""
      if M.is_script(first) then
        vim.bo[event.buf].filetype = "typescript"
      end
    end,
  })
end

return M
