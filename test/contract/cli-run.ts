// Runs the command line against the edge of a test file.
import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import type { Edge } from "../fakes/edge.ts";
import { programs } from "../fakes/programs.ts";

export async function runCli(
  edge: Pick<Edge, "url">,
  key: string,
  args: readonly string[],
  { input = "", env = {} }: { readonly input?: string; readonly env?: Readonly<Record<string, string>> } = {},
) {
  const child = spawn(process.execPath, [programs.cli, ...args], {
    env: { ...process.env, STOKER_HOST: edge.url, STOKER_API_KEY: key, ...env },
  });
  // The command may exit before it has read its input.
  child.stdin.on("error", () => {});
  child.stdin.end(input);
  const exited = new Promise<number | null>((resolve) => child.once("exit", resolve));
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { out, err, code: await exited };
}
