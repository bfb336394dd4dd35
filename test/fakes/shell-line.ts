// A line of a model's record, run by the shell as it stands: with the key in the environment and `stoker` in the PATH.
import { spawn, spawnSync } from "node:child_process";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { text } from "node:stream/consumers";

const cli = join(import.meta.dirname, "../../cli");

/** Without it the lines of records are not run. */
export const hasCurl = spawnSync("curl", ["--version"]).status === 0;
if (!hasCurl)
  console.warn(
    "\n*** NOT PROVEN: that the lines of models' records run as they stand: there is no curl in PATH (apt-get install curl)\n",
  );

export interface Ran {
  readonly out: string;
  readonly err: string;
  readonly code: number | null;
}

export async function runLine(line: string, server: { readonly url: string; readonly apiKey: string }): Promise<Ran> {
  const child = spawn("/bin/sh", ["-c", line], {
    cwd: tmpdir(),
    env: {
      ...process.env,
      PATH: `${cli}${delimiter}${process.env["PATH"] ?? ""}`,
      STOKER_API_KEY: server.apiKey,
      STOKER_HOST: server.url,
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  const exited = new Promise<number | null>((resolve) => child.once("close", resolve));
  const [out, err] = await Promise.all([text(child.stdout), text(child.stderr)]);
  return { out, err, code: await exited };
}

export interface CalledBy {
  readonly curl_inv: string;
  readonly cmdline_inv: string;
}

export async function recordOf(server: { readonly url: string; readonly apiKey: string }, model: string) {
  const answer = await fetch(`${server.url}/models/${model}`, {
    headers: { authorization: `Bearer ${server.apiKey}` },
  });
  const body = await answer.text();
  if (!answer.ok) throw new Error(`the record of ${model}: ${answer.status} ${body}`);
  return JSON.parse(body) as CalledBy;
}
