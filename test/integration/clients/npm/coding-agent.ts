// The command line of the coding agent that AGENT names edits a file; returns what the file holds afterwards.
import { execFile } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { base, chat, key, serve } from "./driver.ts";

const read = (name: string): string => process.env[name] ?? "";
const file = read("EDIT_FILE");
const request = read("EDIT_REQUEST");
const folder = dirname(file);
const home = join(folder, "home");
mkdirSync(home);
const modules = join(read("NPM_HOME"), "node_modules");
/** Has the configuration for Codex. */
const codexPage = join(import.meta.dirname, "../../../../docs/operations/responses.md");
const platform = `${process.platform}-${process.arch}`;

interface Command {
  readonly program: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
}

const agents: Readonly<Record<string, () => Command>> = {
  codex: () => {
    const [, documented = ""] = /```toml\n(.*?)```/s.exec(readFileSync(codexPage, "utf8")) ?? [];
    writeFileSync(
      join(home, "config.toml"),
      documented.replace("MODEL", chat).replace("https://stoker.example.com", base),
    );
    const flags = ["--skip-git-repo-check", "--sandbox", "danger-full-access", "-C", folder];
    const args = ["exec", "-c", "check_for_update_on_startup=false", ...flags, request];
    return {
      program: process.execPath,
      args: [join(modules, "@openai/codex/bin/codex.js"), ...args],
      env: { CODEX_HOME: home, STOKER_API_KEY: key },
    };
  },
  opencode: () => {
    const options = { baseURL: `${base}/v1`, apiKey: key };
    const stoker = { npm: "@ai-sdk/openai-compatible", name: "Stoker", options, models: { [chat]: { name: chat } } };
    const config = {
      provider: { stoker },
      model: `stoker/${chat}`,
      small_model: `stoker/${chat}`,
      autoupdate: false,
      share: "disabled",
      permission: { edit: "allow", bash: "allow", read: "allow", external_directory: "allow" },
    };
    writeFileSync(join(home, "opencode.json"), JSON.stringify(config));
    return {
      program: join(modules, `opencode-${platform}/bin/opencode`),
      args: ["run", "--model", `stoker/${chat}`, request],
      env: {
        OPENCODE_CONFIG: join(home, "opencode.json"),
        OPENCODE_DISABLE_MODELS_FETCH: "1",
        OPENCODE_DISABLE_LSP_DOWNLOAD: "1",
        OPENCODE_DISABLE_DEFAULT_PLUGINS: "1",
        OPENCODE_DISABLE_AUTOUPDATE: "1",
      },
    };
  },
  claude: () => ({
    program: join(modules, `@anthropic-ai/claude-code-${platform}/claude`),
    args: ["-p", request, "--model", chat, "--allowedTools", "Read,Edit", "--permission-mode", "acceptEdits"],
    env: {
      ANTHROPIC_BASE_URL: base,
      ANTHROPIC_API_KEY: key,
      ANTHROPIC_MODEL: chat,
      ANTHROPIC_SMALL_FAST_MODEL: chat,
      ANTHROPIC_DEFAULT_HAIKU_MODEL: chat,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      CLAUDE_CONFIG_DIR: home,
      DISABLE_AUTOUPDATER: "1",
    },
  }),
};

async function edit(): Promise<string> {
  const command = agents[read("AGENT")]?.();
  if (!command) throw new Error("unknown agent");
  const env = { ...process.env, HOME: home, XDG_CONFIG_HOME: home, XDG_DATA_HOME: home, ...command.env };
  const running = promisify(execFile)(command.program, command.args, { cwd: folder, env, timeout: 100_000 });
  // A terminal's input: some agents wait for its end.
  running.child.stdin?.end();
  const { stdout, stderr } = await running;
  console.error(stdout, stderr);
  return readFileSync(file, "utf8");
}

await serve({ [`${read("SURFACE")} edit`]: edit });
