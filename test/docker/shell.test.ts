// Terminals on a real engine: what is typed runs in the container, and nothing of it is left once the terminal has ended.
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { DockerDriver } from "../../agent/docker/docker-driver.ts";
import type { ContainerPlan, Shell } from "../../agent/reconcile/driver.ts";
import { clear, docker, testSubnet, tinyHost, tinyImage } from "./docker-host.ts";
import { oncePerRun } from "./once.ts";
import { importTinyImage, shellPrograms } from "./tiny-image.ts";
import { tinyPlan } from "./tiny-plan.ts";

const host = await tinyHost("that a terminal runs in its container and leaves nothing there");
const shellImage = "stoker-tiny-shell:test";
const nodeName = `shells-${process.pid}`;
const signal = (): AbortSignal => AbortSignal.timeout(60_000);
const waiting = { timeout: 30_000, interval: 100 };
const size = { columns: 80, rows: 24 };

describe.skipIf(!host.ok)("a terminal in a container", () => {
  const newDriver = () =>
    new DockerDriver({ log: pino({ level: "silent" }), nodeName, runtimeImage: "", containerSubnet: testSubnet });
  const driver = newDriver();
  const plan = tinyPlan({ image: shellImage });
  let container = "";

  const open = async (by = driver, of: ContainerPlan = plan): Promise<Shell & { printed(): string }> => {
    const shell = await by.openShell(of.instanceId, size, signal());
    if (!shell) throw new Error("no container runs");
    let text = "";
    shell.stream.on("data", (part) => {
      text += part;
    });
    return Object.assign(shell, { printed: () => text });
  };
  const shows = (shell: { printed(): string }, text: string | RegExp) =>
    vi.waitFor(() => expect(shell.printed()).toMatch(text), waiting);
  /** Command lines of what runs in the container, beside its own program. */
  const running = async (): Promise<string> => {
    const script = `for (const id of require("fs").readdirSync("/proc")) if (/^\\d+$/.test(id) && id !== "1" && +id !== process.pid)
      try { console.log(id, require("fs").readFileSync("/proc/" + id + "/cmdline", "utf8").replaceAll("\\0", " ")) } catch {}`;
    return docker("exec", container, "node", "-e", script);
  };

  beforeAll(async () => {
    await oncePerRun("tiny-shell", async () => importTinyImage(shellImage, { programs: shellPrograms }));
    await driver.start(plan, signal());
    container = await docker("ps", "-q", "--filter", `label=stoker.instance=${plan.instanceId}`);
  }, 120_000);
  afterAll(async () => {
    await driver.close();
    if (host.ok) await clear(nodeName);
  });

  it("runs what is typed, knows its size and reports the shell's exit code", async () => {
    const shell = await open();
    shell.stream.write("echo typed-$((40 + 2)); stty size\r");
    await shows(shell, /typed-42[\s\S]*24 80/);
    await shell.resize({ columns: 132, rows: 50 });
    shell.stream.write("stty size\r");
    await shows(shell, "50 132");
    const ended = new Promise((resolve) => shell.stream.once("end", resolve));
    shell.stream.write("exit 7\r");
    await ended;
    expect(await shell.exitCode()).toBe(7);
    await shell.end();
  });

  it("has the user and the limits of the container", async () => {
    const shell = await open();
    shell.stream.write(
      "cat /proc/self/status /proc/1/status | grep -E '^(Uid|CapBnd|NoNewPrivs|Seccomp):'; echo done\r",
    );
    await shows(shell, /\ndone/);
    await shell.end();
    const of = (name: string) =>
      [...shell.printed().matchAll(new RegExp(`^${name}:\\s*(.*?)\\s*$`, "gm"))].map(([, value]) => value);
    for (const name of ["Uid", "CapBnd", "NoNewPrivs", "Seccomp"]) {
      const [own, first] = of(name);
      expect(own, name).toBe(first);
    }
  });

  it("ends with everything in its session, also what ignores a hang-up", async () => {
    const shell = await open();
    shell.stream.write("trap '' HUP; sleep 1001 & (trap '' HUP; sleep 1002) &\r");
    shell.stream.write("sleep 1003\r");
    await vi.waitFor(async () => expect(await running()).toMatch(/1001[\s\S]*1003|1003[\s\S]*1001/), waiting);
    await shell.end();
    expect(await running()).not.toMatch(/sleep|bash/);
  });

  it("holds back a program that prints without end", async () => {
    const shell = await driver.openShell(plan.instanceId, size, signal());
    if (!shell) throw new Error("no container runs");
    shell.stream.pause();
    shell.stream.write("line=$(printf %0400d 0); i=0; while :; do i=$((i+1)); echo $line; echo $i >/tmp/lines; done\r");
    const lines = async () => Number(await docker("exec", container, "cat", "/tmp/lines"));
    let last = -1;
    await vi.waitFor(
      async () => {
        const before = last;
        last = await lines();
        expect(last).toBeGreaterThan(100);
        expect(last).toBe(before);
      },
      { timeout: 60_000, interval: 1_000 },
    );
    await shell.end();
    expect(await running()).not.toMatch(/bash/);
  });

  it("ends when the agent that opened it was killed and another one starts", async () => {
    const old = newDriver();
    const shell = await open(old);
    shell.stream.write("sleep 1004 &\r");
    await vi.waitFor(async () => expect(await running()).toMatch("sleep 1004"), waiting);
    shell.stream.destroy();
    await old.close();
    expect(await running()).toMatch("sleep 1004");
    const next = newDriver();
    await next.list(signal());
    await vi.waitFor(async () => expect(await running()).not.toMatch(/sleep|bash/), waiting);
    await next.close();
  });

  it("says that an image has no shell", async () => {
    const bare = tinyPlan({ image: tinyImage });
    await driver.start(bare, signal());
    await expect(driver.openShell(bare.instanceId, size, signal())).rejects.toMatchObject({ code: "no_shell" });
    await driver.stop(bare.instanceId, 0, signal());
    expect(await driver.openShell(bare.instanceId, size, signal())).toBeUndefined();
  });
});
