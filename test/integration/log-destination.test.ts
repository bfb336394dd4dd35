import { execFileSync, spawnSync } from "node:child_process";
import { closeSync, existsSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";

const root = join(import.meta.dirname, "../..");
const opening = `
  import { pino } from "pino";
  import { createLogDestination } from "${root}/proto/log-destination.ts";
`;
const script = `${opening}
  const log = pino({}, createLogDestination(1, 256));
  for (let i = 0; i < 1000; i++) log.info({ i }, "x".repeat(200));
  log.flush(() => process.exit(0));
`;
const node = (text: string) => ["--input-type=module", "-e", text];

it("every line has left when the log was flushed, whole and in order", () => {
  const text = execFileSync(process.execPath, node(script), { cwd: root, encoding: "utf8" });
  const numbers = text
    .trimEnd()
    .split("\n")
    .map((line) => (JSON.parse(line) as { i: number }).i);
  expect(numbers).toEqual(Array.from({ length: 1000 }, (_, i) => i));
});

it("a line that waits leaves by itself while the process goes on", () => {
  const waiting = script
    .replace("1000", "3")
    .replace("log.flush(() => process.exit(0));", "setTimeout(() => process.kill(process.pid, 'SIGKILL'), 2000);");
  const { stdout } = spawnSync(process.execPath, node(waiting), { cwd: root, encoding: "utf8" });
  expect(stdout.trimEnd().split("\n")).toHaveLength(3);
});

it("lines that wait when the process ends by itself are written", () => {
  const ending = script.replace("1000", "3").replace("log.flush(() => process.exit(0));", "process.exit(0);");
  const text = execFileSync(process.execPath, node(ending), { cwd: root, encoding: "utf8" });
  expect(text.trimEnd().split("\n")).toHaveLength(3);
});

it.skipIf(!existsSync("/dev/full"))("a process whose log lies on a full disk goes on, and it can still end", () => {
  const full = openSync("/dev/full", "w");
  // Told on standard error, which is not full.
  const going = script.replace(
    "log.flush(() => process.exit(0));",
    `log.flush((error) => { console.error(error.code); log.info("one more"); process.exit(7); });`,
  );
  const { status, stderr } = spawnSync(process.execPath, node(going), {
    cwd: root,
    encoding: "utf8",
    stdio: ["ignore", full, "pipe"],
    timeout: 60_000,
  });
  closeSync(full);
  expect({ status, stderr }).toEqual({ status: 7, stderr: "ENOSPC\n" });
});

it.skipIf(!existsSync("/dev/full"))("when there is room again the log says how many lines are missing", () => {
  // A file that is opened takes the lowest free number: the full disk turns into one with room.
  const recovering = `${opening}
    import { closeSync, openSync } from "node:fs";
    const fd = openSync("/dev/full", "w");
    const log = pino({}, createLogDestination(fd, 256));
    log.info("first");
    log.info("second");
    log.flush(() => {
      closeSync(fd);
      if (openSync(process.argv[1], "w") !== fd) process.exit(3);
      log.info("third");
      log.flush(() => process.exit(0));
    });
  `;
  const folder = mkdtempSync(join(tmpdir(), "stoker-log-"));
  const file = join(folder, "log");
  execFileSync(process.execPath, [...node(recovering), file], { cwd: root });
  const lines = readFileSync(file, "utf8").trim().split("\n");
  expect(lines.map((line) => JSON.parse(line) as object)).toEqual([
    expect.objectContaining({ level: 40, lost: 2, reason: "ENOSPC" }),
    expect.objectContaining({ msg: "third" }),
  ]);
  rmSync(folder, { recursive: true });
});
