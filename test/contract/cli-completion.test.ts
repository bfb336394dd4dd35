// Completions in the real shells: what Tab makes of a line.
import { execFileSync, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it, vi } from "vitest";
import { placesOf } from "../../cli/completion/tree.ts";
import { createProgram } from "../../cli/program.ts";
import { runCli } from "./cli-run.ts";

const folder = mkdtempSync(join(tmpdir(), "stoker-completion-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
writeFileSync(join(folder, "requests-1.jsonl"), "");

/** Line before Tab, and after it. */
const lines: readonly (readonly [before: string, after: string])[] = [
  ["stoker dep", "stoker deploy"],
  ["stoker deploy cre", "stoker deploy create"],
  ["stoker deploy list --sta", "stoker deploy list --state"],
  ["stoker deploy list --output y", "stoker deploy list --output yaml"],
  ["stoker deploy list --output=y", "stoker deploy list --output=yaml"],
  ["stoker deploy list -o w", "stoker deploy list -o wide"],
  ["stoker --profile deploy auth stat", "stoker --profile deploy auth status"],
  ["stoker node drain --dead", "stoker node drain --deadline"],
  ["stoker limit ge", "stoker limit get"],
  ["stoker file create req", "stoker file create requests-1.jsonl"],
  ["stoker infer --input a=b --webh", "stoker infer --input a=b --webhook"],
  ["stoker completion z", "stoker completion zsh"],
  // Neither a command nor an option that exists here.
  ["stoker deploy cordo", "stoker deploy cordo"],
  ["stoker deploy list --gp", "stoker deploy list --gp"],
];

const isInstalled = (shell: string) => spawnSync(shell, ["--version"]).status === 0;

async function scriptFor(shell: string): Promise<string> {
  const path = join(folder, `completion.${shell}`);
  const { out, code, err } = await runCli({ url: "http://127.0.0.1:9" }, "", ["completion", shell]);
  expect(code, err).toBe(0);
  writeFileSync(path, out);
  return path;
}

/** Types lines into a shell on a pseudo-terminal. `dump`: makes Ctrl-X write the line to $DUMP and clear it. */
function openShell(command: string, setUp: string) {
  const dump = join(folder, "line");
  const child = spawn("script", ["--quiet", "--command", `stty cols 200; exec ${command}`, "/dev/null"], {
    cwd: folder,
    env: { PATH: process.env["PATH"], HOME: folder, DUMP: dump, TERM: "dumb", SHELL: "/bin/sh" },
  });
  let screen = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    screen += text;
  });
  child.stdin.write(`${setUp}; echo rea""dy\n`);
  return {
    async afterTab(line: string): Promise<string> {
      await vi.waitFor(() => expect(screen).toContain("ready"), { timeout: 30_000 });
      rmSync(dump, { force: true });
      child.stdin.write(`${line}\t\x18`);
      const text = await vi.waitFor(() => readFileSync(`${dump}`, "utf8"), { timeout: 30_000 });
      return text.trimEnd();
    },
    close: () => child.kill("SIGKILL"),
  };
}

const shells = {
  bash: {
    command: "bash --norc --noprofile -i",
    dump: `dump() { printf %s "$READLINE_LINE" > "$DUMP.new"; mv "$DUMP.new" "$DUMP"; READLINE_LINE=; }; bind -x '"\\C-x":dump'`,
  },
  zsh: {
    command: "zsh -f -i",
    dump:
      'autoload -U compinit; compinit -u -D; dump() { printf %s "$BUFFER" > "$DUMP.new"; mv "$DUMP.new" "$DUMP"; zle kill-buffer }; ' +
      "zle -N dump; bindkey '^X' dump",
  },
} as const;

describe.each(["bash", "zsh"] as const)("completion in %s", (shell) => {
  it("completes commands, options, their values and files", async (context) => {
    if (!isInstalled(shell)) context.skip(`NOT PROVEN: ${shell} is not installed.`);
    const { command, dump } = shells[shell];
    const terminal = openShell(command, `${dump}; source '${await scriptFor(shell)}'`);
    try {
      for (const [before, after] of lines) expect(await terminal.afterTab(before), before).toBe(after);
    } finally {
      terminal.close();
    }
  }, 120_000);
});

describe("completion in fish", () => {
  it("completes commands, options, their values and files", async (context) => {
    if (!isInstalled("fish")) context.skip("NOT PROVEN: fish is not installed.");
    const script = await scriptFor("fish");
    const afterTab = (line: string) => {
      const code = `source '${script}'; complete -C "${line}"`;
      const found = execFileSync("fish", ["--no-config", "-c", code], { cwd: folder, encoding: "utf8" });
      const words = found.split("\n").flatMap((text) => text.split("\t")[0] || []);
      const last = line.slice(line.lastIndexOf(" ") + 1);
      // fish also offers words that only contain what was typed.
      const starting = words.filter((word) => word.startsWith(last));
      return starting.length === 1 ? line.slice(0, -last.length) + starting[0] : line;
    };
    for (const [before, after] of lines) expect(afterTab(before), before).toBe(after);
  }, 120_000);

  it("shows the description of each command", async (context) => {
    if (!isInstalled("fish")) context.skip("NOT PROVEN: fish is not installed.");
    const code = `source '${await scriptFor("fish")}'; complete -C "stoker deploy "`;
    const found = execFileSync("fish", ["--no-config", "-c", code], { encoding: "utf8" });
    expect(found).toMatch(/^list\tlist deployments, newest first$/m);
  }, 60_000);
});

it("covers every command that the help lists", () => {
  const program = createProgram("0.0.0");
  const places = placesOf(program);
  const paths = new Set(places.map(({ path }) => path));
  for (const { path, commands } of places)
    for (const { name } of commands)
      if (name !== "help") expect(paths.has(`${path} ${name}`), `${path} ${name}`).toBe(true);
  expect(places.length).toBeGreaterThan(150);
});
