// pg_dump and pg_restore as streams: a dump is never a file in plain text.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { connectionOf } from "./programs.ts";
import { BackupRefused } from "./refused.ts";

const common = ["--no-owner", "--no-privileges"];

/** Yields the output of pg_dump for a snapshot that the caller holds until the end. Throws BackupRefused. */
export async function* dumpOf(program: string, databaseUrl: string, snapshot: string): AsyncGenerator<Buffer> {
  const { env, url } = connectionOf(databaseUrl);
  const child = spawn(program, ["--format=custom", ...common, `--snapshot=${snapshot}`, `--dbname=${url}`], {
    env,
    stdio: ["ignore", "pipe", "pipe"],
  });
  const done = outcomeOf(child, "pg_dump");
  try {
    yield* child.stdout;
    await done;
  } finally {
    child.kill("SIGKILL");
  }
}

/** Loads all of `dump` or nothing. Reads it to its end even if pg_restore does not. Throws BackupRefused. */
export async function load(program: string, databaseUrl: string, dump: AsyncIterable<Buffer>): Promise<void> {
  const { env, url } = connectionOf(databaseUrl);
  const child = spawn(program, ["--exit-on-error", "--single-transaction", ...common, `--dbname=${url}`], {
    env,
    stdio: ["pipe", "ignore", "pipe"],
  });
  const done = outcomeOf(child, "pg_restore");
  let isDone = false;
  const end = done.finally(() => (isDone = true));
  end.catch(() => {});
  // A failing pg_restore closes the pipe; its exit shows the reason.
  child.stdin.on("error", () => {});
  try {
    for await (const chunk of dump) {
      if (isDone) await end;
      else if (!child.stdin.write(chunk)) await Promise.race([once(child.stdin, "drain").catch(() => end), end]);
    }
    child.stdin.end();
    await end;
  } finally {
    child.kill("SIGKILL");
  }
}

function outcomeOf(child: ChildProcess, name: string): Promise<void> {
  let errors = "";
  child.stderr?.on("data", (chunk) => {
    errors = (errors + String(chunk)).slice(0, 500);
  });
  const outcome = new Promise<void>((resolve, reject) => {
    child.once("error", (cause) => reject(new BackupRefused(`${name} cannot be run: ${cause.message}`, { cause })));
    child.once("close", (code, signal) =>
      code === 0 ? resolve() : reject(new BackupRefused(`${name} failed: ${errors.trim() || (signal ?? code)}`)),
    );
  });
  // Awaited once the stream has ended.
  outcome.catch(() => {});
  return outcome;
}
