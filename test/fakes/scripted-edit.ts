// The script of a coding agent's session: read the file, replace a word by the agent's own tool, report the end.
import type { Call, Reply, Tool, Turn } from "./scripted-chat.ts";

const before = "hello";
const after = "goodbye";
export const editedFile = { before: `${before} world\n`, after: `${after} world\n` };

/** What a user types. `path`: absolute, of a file with `editedFile.before`. */
export const editRequest = (path: string): string => `In the file ${path} replace the word ${before} by ${after}.`;

const requested = /In the file (\S+) replace the word/;

/** Calls of the known coding agents for a read and for an edit, by the names of their tools. */
const agents: readonly {
  readonly tools: readonly string[];
  read(path: string): Call;
  edit(path: string): Call;
}[] = [
  // OpenAI's Codex.
  {
    tools: ["exec_command", "apply_patch"],
    read: (path) => ({ name: "exec_command", arguments: { cmd: `cat ${path}` } }),
    edit: (path) => ({ name: "apply_patch", arguments: { input: patchOf(path) } }),
  },
  {
    tools: ["exec_command"],
    read: (path) => ({ name: "exec_command", arguments: { cmd: `cat ${path}` } }),
    edit: (path) => ({
      name: "exec_command",
      arguments: { cmd: `apply_patch <<'END'\n${patchOf(path)}\nEND` },
    }),
  },
  // opencode.
  {
    tools: ["read", "edit"],
    read: (path) => ({ name: "read", arguments: { filePath: path } }),
    edit: (path) => ({ name: "edit", arguments: { filePath: path, oldString: before, newString: after } }),
  },
  // Claude Code.
  {
    tools: ["Read", "Edit"],
    read: (path) => ({ name: "Read", arguments: { file_path: path } }),
    edit: (path) => ({
      name: "Edit",
      arguments: { file_path: path, old_string: before, new_string: after, replace_all: false },
    }),
  },
];

export function editReply(turns: readonly Turn[], tools: readonly Tool[]): Reply | undefined {
  const path = turns
    .map(({ role, text }) => (role === "user" ? requested.exec(text)?.[1] : undefined))
    .findLast(Boolean);
  if (path === undefined) return undefined;
  const names = tools.map(({ name }) => name);
  const agent = agents.find((one) => one.tools.every((name) => names.includes(name)));
  // aider offers no tools: it reads whole files from the reply.
  if (!agent) return { text: `${path.slice(path.lastIndexOf("/") + 1)}\n\`\`\`\n${editedFile.after}\`\`\`\n` };
  const results = turns.filter(({ role }) => role === "tool").length;
  if (results === 0) return { calls: [agent.read(path)] };
  return results === 1 ? { calls: [agent.edit(path)] } : { text: "Done." };
}

const patchOf = (path: string): string =>
  `*** Begin Patch\n*** Update File: ${path}\n@@\n-${before} world\n+${after} world\n*** End Patch`;
