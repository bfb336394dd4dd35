// Runs the command line against the edge of a test file.
import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { vi } from "vitest";
import { run } from "../../cli/run.ts";
import type { Edge } from "../fakes/edge.ts";
import { programs } from "../fakes/programs.ts";

interface CliResult {
  readonly out: string;
  readonly err: string;
  readonly code: number | null;
}

/** With `input` in a process of its own, and otherwise in this one, which takes a tenth of the processor time. */
export async function runCli(
  edge: Pick<Edge, "url">,
  key: string,
  args: readonly string[],
  { input, env = {} }: { readonly input?: string | undefined; readonly env?: Readonly<Record<string, string>> } = {},
): Promise<CliResult> {
  const all = { ...process.env, STOKER_HOST: edge.url, STOKER_API_KEY: key, ...env };
  if (input !== undefined) return runProcess(args, all, input);
  const [out, err]: [Buffer[], Buffer[]] = [[], []];
  const code = await runHere(args, all, { out: (chunk) => out.push(chunk), err: (chunk) => err.push(chunk) });
  return { out: Buffer.concat(out).toString(), err: Buffer.concat(err).toString(), code };
}

async function runProcess(args: readonly string[], env: NodeJS.ProcessEnv, input: string): Promise<CliResult> {
  const child = spawn(process.execPath, [programs.cli, ...args], { env });
  // The command may exit before it has read its input.
  child.stdin.on("error", () => {});
  child.stdin.end(input);
  const exited = new Promise<number | null>((resolve) => child.once("exit", resolve));
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { out, err, code: await exited };
}

export interface Output {
  out(chunk: Buffer): void;
  err(chunk: Buffer): void;
}

let last: Promise<unknown> = Promise.resolve();

/**
 * Runs a command in this process and returns its exit code. `env` replaces the environment. Commands run one after another, because
 * they share the streams of the process.
 */
export function runHere(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  output: Output,
  folder = process.cwd(),
): Promise<number> {
  const running = last.then(() => runAlone(args, env, output, folder));
  last = running.catch(() => {});
  return running;
}

async function runAlone(
  args: readonly string[],
  env: NodeJS.ProcessEnv,
  output: Output,
  folder: string,
): Promise<number> {
  const before = { env: process.env, folder: process.cwd() };
  const streams = [keep(process.stdout, output.out), keep(process.stderr, output.err)];
  try {
    process.env = env;
    process.chdir(folder);
    await run(args);
    return Number(process.exitCode ?? 0);
  } finally {
    process.exitCode = undefined;
    process.chdir(before.folder);
    process.env = before.env;
    for (const stream of streams) stream.mockRestore();
  }
}

function keep(stream: NodeJS.WriteStream, write: (chunk: Buffer) => void) {
  return vi.spyOn(stream, "write").mockImplementation((chunk, ...rest) => {
    write(Buffer.from(chunk as Uint8Array));
    const done = rest.at(-1) as unknown;
    if (typeof done === "function") done();
    return true;
  });
}
