import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { expect, it } from "vitest";

const home = join(import.meta.dirname, "../../fakes/worker-end.ts");

/** A process that registers three ends, takes one of them back and then does `last`. */
function run(last: string) {
  const script = `
    import { atWorkerEnd } from ${JSON.stringify(home)};
    atWorkerEnd(() => process.stdout.write("first "));
    atWorkerEnd(() => process.stdout.write("back "))();
    atWorkerEnd(() => { throw new Error("gone already"); });
    atWorkerEnd(() => process.stdout.write("last "));
    setInterval(() => {}, 1000);
    ${last}`;
  const { stdout, signal, status } = spawnSync(process.execPath, ["--input-type=module", "-e", script], {
    encoding: "utf8",
    timeout: 30_000,
  });
  return { stdout, signal, status };
}

it.each(["SIGTERM", "SIGINT"])("what was registered ends at %s, and the process dies of it", (signal) => {
  expect(run(`process.kill(process.pid, "${signal}");`)).toEqual({ stdout: "last first ", signal, status: null });
});

it("what was registered ends with a process that leaves by itself", () => {
  expect(run("process.exit(3);")).toEqual({ stdout: "last first ", signal: null, status: 3 });
});
