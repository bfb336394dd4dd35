// Runs the real `up` on a temporary data folder and a free port, and knows which processes it started.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { isAlive, type ProcessIdentity } from "../../../agent/process/process-identity.ts";
import { endProcess } from "../../../scripts/supervisor/child.ts";
import { atWorkerEnd } from "../../fakes/worker-end.ts";

export const root = resolve(import.meta.dirname, "../../..");
const startLimitMs = 180_000;

export interface Up {
  readonly process: ChildProcess;
  readonly url: string;
  readonly dataDir: string;
  output(): string;
  /** Resolves when the banner is there; rejects with the output when it ended before. */
  ready(): Promise<void>;
  /** Exit code, or the signal that ended it. */
  ended(): Promise<number | NodeJS.Signals>;
  /** The children that run now, by the records `up` keeps. */
  children(): readonly (ProcessIdentity & { readonly name: string })[];
  key(): string;
}

/** Its parent is closed to everybody else, as a home often is. */
export function newDataDir(): string {
  return join(mkdtempSync(join(tmpdir(), "stoker-up-")), "data");
}

/** Where it notes its data folder. */
export const stateHome = (dataDir: string): string => join(dataDir, "..", "state");

export function startUp(dataDir: string, port: number, flags: readonly string[], env: NodeJS.ProcessEnv = {}): Up {
  const child = spawn(join(root, "scripts/up"), ["--data", dataDir, "--port", String(port), ...flags], {
    cwd: tmpdir(),
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, XDG_STATE_HOME: stateHome(dataDir), ...env },
  });
  // It ends what it started by itself.
  atWorkerEnd(() => child.kill("SIGTERM"));
  let text = "";
  const keep = (chunk: Buffer): void => {
    text += chunk.toString();
  };
  child.stdout.on("data", keep);
  child.stderr.on("data", keep);
  const ended = new Promise<number | NodeJS.Signals>((done) =>
    child.once("close", (code, signal) => done(code ?? signal ?? 1)),
  );
  return {
    process: child,
    url: `${env["STOKER_TLS_CERT"] ? "https" : "http"}://127.0.0.1:${port}`,
    dataDir,
    output: () => text,
    async ready() {
      const said = new Promise<void>((done) => {
        const look = (): void => {
          if (text.includes("Ctrl-C stops everything")) done();
        };
        child.stdout.on("data", look);
        look();
      });
      const late = AbortSignal.timeout(startLimitMs);
      const tooLate = new Promise<never>((_done, fail) =>
        late.addEventListener("abort", () => fail(new Error(`up was not ready in time:\n${text}`))),
      );
      const gone = ended.then((code) => Promise.reject(new Error(`up ended (${code}):\n${text}`)));
      await Promise.race([said, gone, tooLate]);
    },
    ended: () => ended,
    children: () => recorded(dataDir),
    key: () => readFileSync(join(dataDir, "admin.key"), "utf8").trim(),
  };
}

/** Ends whatever a test left, by the recorded identities, and removes the folder. */
export async function clearUp(up: Up): Promise<void> {
  if (up.process.exitCode === null && up.process.signalCode === null) {
    up.process.kill("SIGTERM");
    await up.ended();
  }
  await Promise.all(recorded(up.dataDir).map((child) => endProcess(child, [{ signal: "SIGKILL", waitMs: 10_000 }])));
  const pointer = join(up.dataDir, "postgres.location");
  if (existsSync(pointer)) rmSync(readFileSync(pointer, "utf8").trim(), { recursive: true, force: true });
  rmSync(resolve(up.dataDir, ".."), { recursive: true, force: true });
}

function recorded(dataDir: string): (ProcessIdentity & { name: string })[] {
  const folder = join(dataDir, "run");
  if (!existsSync(folder)) return [];
  return readdirSync(folder)
    .filter((file) => file.endsWith(".json"))
    .map((file) => ({
      ...(JSON.parse(readFileSync(join(folder, file), "utf8")) as ProcessIdentity),
      name: file.slice(0, -5),
    }))
    .filter(isAlive);
}
