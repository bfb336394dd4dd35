// `stoker down` on data folders whose lock a process of the test holds, as `up` does. test/e2e/up/restored.test.ts stops real ones.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { identify } from "../../agent/process/process-identity.ts";
import { noteName, notesFolder } from "../../cli/data-folders.ts";
import { runCli } from "./cli-run.ts";

const url = "http://127.0.0.1:9123";

/** Ends at the given number of SIGTERM; 0: never. */
async function holder(signals: number): Promise<ChildProcess> {
  const code = `let got = 0; process.on("SIGTERM", () => { got += 1; if (got === ${signals}) process.exit(0); }); setInterval(() => {}, 1000); console.log("ready");`;
  const child = spawn(process.execPath, ["-e", code], { stdio: ["ignore", "pipe", "inherit"] });
  onTestFinished(() => void child.kill("SIGKILL"));
  await once(child.stdout as NodeJS.ReadableStream, "data");
  return child;
}

function lockedBy(pid: number, startedAt = identify(pid)?.startedAt): string {
  const folder = mkdtempSync(join(tmpdir(), "stoker-down-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  writeFileSync(join(folder, "up.lock"), JSON.stringify({ pid, startedAt, url, others: [] }), { mode: 0o600 });
  return folder;
}

const down = (data: string, ...flags: string[]) => runCli({ url }, "", ["down", "--data", data, ...flags]);

it("stops the process that holds the data folder and waits for its end", async () => {
  const child = await holder(1);
  const ended = once(child, "exit");
  const folder = lockedBy(child.pid as number);
  const { code, out, err } = await down(folder);
  expect(out, err).toBe(`Stopped. Data and models stay in ${folder}.\n`);
  expect(err).toBe(`Stopping Stoker at ${url} (pid ${child.pid}) ...\n`);
  expect(code).toBe(0);
  expect((await ended)[0]).toBe(0);
}, 60_000);

it("exits with 6 if it does not end in time, and stops it at once with --force", async () => {
  const folder = lockedBy((await holder(3)).pid as number);
  const late = await down(folder, "--timeout", "1s");
  expect(late).toMatchObject({
    code: 6,
    out: "",
    err: expect.stringContaining("`stoker down --force` stops it at once"),
  });
  expect(JSON.parse((await down(folder, "--force", "--json")).out)).toEqual({ data: folder, stopped: true });
}, 60_000);

it("signals no process that only has the pid of the lock", async () => {
  const child = await holder(1);
  const folder = lockedBy(child.pid as number, "another boot:1");
  expect(await down(folder)).toMatchObject({ code: 0, out: `Stoker is not running on ${folder}.\n` });
  expect(child.exitCode).toBeNull();
}, 60_000);

it("stops one outside the default folders only if it is named", async () => {
  const child = await holder(1);
  const folder = lockedBy(child.pid as number);
  const state = lockedBy(child.pid as number);
  const env = { XDG_STATE_HOME: state, STOKER_DATA: "" };
  const notes = notesFolder(env);
  mkdirSync(notes, { recursive: true, mode: 0o700 });
  writeFileSync(join(notes, noteName(child.pid as number)), `${folder}\n`);
  const unnamed = await runCli({ url }, "", ["down"], { env });
  expect(unnamed).toMatchObject({ code: 2, out: "", err: expect.stringContaining(`--data ${folder}`) });
  expect(child.exitCode).toBeNull();
  expect(await runCli({ url }, "", ["down", "--data", folder], { env })).toMatchObject({ code: 0 });
}, 60_000);

it("exits with 4 for a folder that does not exist", async () => {
  expect(await down("/nonexistent/data")).toMatchObject({ code: 4, out: "" });
}, 60_000);
