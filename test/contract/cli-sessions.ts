// Recorded sessions of the command line: text files with commands and their output, in test/fixtures/cli-sessions.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { globSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { type Output, runHere } from "./cli-run.ts";

export const sessionFolder = join(import.meta.dirname, "../fixtures/cli-sessions");
/** Width of the terminal that the sessions were recorded for. */
export const columns = 80;

export interface Step {
  /** Lines before the command: comments. */
  readonly before: readonly string[];
  readonly role: string;
  readonly command: string;
}

const prompt = /^(\w+)\$ (stoker .*)$/;

export const sessionFiles = (): readonly string[] => globSync(join(sessionFolder, "*.txt")).toSorted();

/** Steps of a session file. Lines that start with `# ` before a command are comments. */
export function readSession(file: string): readonly Step[] {
  const steps: Step[] = [];
  let before: string[] = [];
  for (const line of readFileSync(file, "utf8").split("\n")) {
    const [, role = "", command = ""] = prompt.exec(line) ?? [];
    if (line.startsWith("# ")) before.push(line);
    if (command === "") continue;
    steps.push({ before, role, command });
    before = [];
  }
  if (steps.length === 0) throw new Error(`No commands in ${basename(file)}.`);
  return steps;
}

/** The step as its file shows it. */
export const stepText = ({ before, role, command }: Step, output: string): string =>
  [...before, `${role}$ ${command}`, ...(output === "" ? [] : [output]), ""].join("\n");

/** Commands that start another program, whose output only a process of its own can keep apart. */
const childCommands: ReadonlySet<string> = new Set(["simulate"]);

/**
 * Runs the command in this process, except for those of `childCommands`, and returns the lines of stdout and stderr in the order of a terminal,
 * with `[exit N]` last if it fails.
 * `env` replaces the environment except PATH.
 */
export async function runStep(
  { command }: Pick<Step, "command">,
  env: Readonly<Record<string, string>>,
  folder: string,
): Promise<readonly string[]> {
  const chunks: Buffer[] = [];
  const keep = (chunk: Buffer): void => void chunks.push(chunk);
  // Commands also look for the data folder beside their program, where `up` of this clone may have left one.
  const all = {
    PATH: process.env["PATH"],
    HOME: folder,
    // `homedir()` does not read a replaced environment, and this user may have a data folder and profiles of their own.
    XDG_STATE_HOME: join(folder, ".local/state"),
    XDG_CONFIG_HOME: join(folder, ".config"),
    STOKER_DATA: ".stoker",
    COLUMNS: String(columns),
    ...env,
  };
  const words = wordsOf(command).slice(1);
  const output = { out: keep, err: keep };
  const code = childCommands.has(words[0] ?? "")
    ? await runProgram(words, all, output, folder)
    : await runHere(words, all, output, folder);
  const text = Buffer.concat(chunks).toString().replace(/\n$/, "");
  return [...(text === "" ? [] : text.split("\n")), ...(code ? [`[exit ${code}]`] : [])];
}

async function runProgram(words: readonly string[], env: NodeJS.ProcessEnv, output: Output, folder: string) {
  const child = spawn(join(import.meta.dirname, "../../cli/stoker"), words, { env, cwd: folder });
  child.stdout.on("data", output.out);
  child.stderr.on("data", output.err);
  child.stdin.end();
  const [code] = await once(child, "close");
  return code as number | null;
}

/** Words of a command line; double quotes keep spaces. */
const wordsOf = (line: string): readonly string[] =>
  [...line.matchAll(/"([^"]*)"|\S+/g)].map(([word, quoted]) => quoted ?? word);
