import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { expect, it } from "vitest";

const root = join(import.meta.dirname, "../../..");
const script = `
  import { pino } from "pino";
  import { createLogDestination } from "${root}/control-plane/wiring/log-destination.ts";
  const log = pino(createLogDestination());
  for (let i = 0; i < 1000; i++) log.info({ i }, "x".repeat(200));
  log.flush(() => process.exit(0));
`;

it("every line has left when the log was flushed, whole and in order", () => {
  const text = execFileSync(process.execPath, ["--input-type=module", "-e", script], { cwd: root, encoding: "utf8" });
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
  let text = "";
  try {
    execFileSync(process.execPath, ["--input-type=module", "-e", waiting], { cwd: root, encoding: "utf8" });
  } catch (error) {
    text = (error as { stdout: string }).stdout;
  }
  expect(text.trimEnd().split("\n")).toHaveLength(3);
});
