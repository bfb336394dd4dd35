// A terminal of an agent instance from the console and the command line to a real container: real processes, a real engine, a
// real browser.
import { execFile } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { buildConsole } from "../../scripts/build-console.ts";
import { openCliTerminal } from "../contract/cli-terminal.ts";
import { browserPath, startBrowser } from "../fakes/browser.ts";
import { type Stack, startStack } from "../fakes/processes.ts";
import { setPassword } from "../integration/console/page-data.ts";
import { signedIn, visit } from "../integration/console/visit.ts";
import { clear, docker, testSubnet, tinyHost, tinyImage } from "./docker-host.ts";
import { oncePerRun } from "./once.ts";
import { importTinyImage, shellPrograms } from "./tiny-image.ts";

const run = promisify(execFile);
const root = join(import.meta.dirname, "../..");
const baseImage = "stoker-tiny-shell:test";
const image = "stoker-agent-shell:test";
const waiting = { timeout: 90_000, interval: 200 };
const host = await tinyHost("that the console and the command line open a terminal in an agent instance");
const hasBrowser = browserPath !== undefined;
if (!hasBrowser) console.warn("\n*** NOT PROVEN: the console's terminal, because chromium is missing\n");

const type = {
  id: "workspace",
  pretty_name: "Workspace",
  version: "1",
  image,
  port: 8000,
  volume_path: "/data",
  dashboard_port: 8000,
  backups: { every_hours: 0, keep: 2 },
  plans: [{ id: "standard", vcpu: 1, ram_gb: 0.25, price_per_hour: 0.6 }],
};

async function buildImage(): Promise<void> {
  const args = ["build", "--quiet", "--build-arg", `BASE_IMAGE=${baseImage}`, "--tag", image];
  const env = { ...process.env, DOCKER_BUILDKIT: "0" };
  await run("docker", [...args, join(root, "deploy/agents/workspace")], { env, timeout: 120_000 });
}

describe.skipIf(!host.ok)("a terminal of an agent instance", () => {
  let stack: Stack;
  let browser: Browser | undefined;
  let node = "";
  let id = "";

  /** Command lines of what runs in the container, beside its own program. */
  const running = async (): Promise<string> => {
    const container = await docker("ps", "-q", "--filter", `label=stoker.deploy=${id}`);
    return docker("top", container, "-eo", "pid,args");
  };

  beforeAll(async () => {
    await oncePerRun("tiny-shell", async () => importTinyImage(baseImage, { programs: shellPrograms }));
    await oncePerRun("agent-shell", buildImage);
    if (hasBrowser) {
      await buildConsole();
      browser = await startBrowser();
    }
    const catalogFile = join(root, ".cache", `shell-types-${process.pid}.json`);
    writeFileSync(catalogFile, JSON.stringify({ types: [type] }));
    stack = await startStack({
      controlPlaneEnv: { STOKER_AGENT_CATALOG: catalogFile },
      agentEnv: {
        STOKER_DRIVER: "docker",
        STOKER_RUNTIME_IMAGE: tinyImage,
        STOKER_ALLOWED_IMAGES: image,
        STOKER_CONTAINER_SUBNET: testSubnet,
        STOKER_TERMINALS: "1",
      },
    });
    node = JSON.parse(readFileSync(join(stack.agentFolder(1), "agent.json"), "utf8")).host_id;
    const made = await stack.call("POST", "/v1/agent", { name: "mine", agent_type_id: "workspace" });
    expect(made.status, JSON.stringify(made.body)).toBe(200);
    id = made.body.instance_id;
    await vi.waitFor(
      async () => expect((await stack.call("GET", `/v1/agent/${id}/terminal`)).body).toMatchObject({ available: true }),
      waiting,
    );
  });
  afterAll(async () => {
    await browser?.close();
    await stack?.stop();
    if (node !== "") await clear(node);
  });

  it("runs a shell from the command line, which ends with it", async () => {
    const cli = openCliTerminal(stack, stack.apiKey, ["agent", "shell", id]);
    await cli.shows("Ctrl-] closes the connection");
    cli.type("stty size; echo volume-$STOKER_VOLUME; sleep 1005\n");
    await cli.shows(/24 80[\s\S]*volume-\/data/);
    await vi.waitFor(async () => expect(await running()).toContain("sleep 1005"), waiting);
    cli.kill();
    await vi.waitFor(async () => expect(await running()).not.toMatch(/sleep|bash/), waiting);
    const other = openCliTerminal(stack, stack.apiKey, ["agent", "shell", id]);
    await other.shows("Ctrl-] closes the connection");
    other.type("exit 9\n");
    expect(await other.exited).toBe(9);
  });

  it.skipIf(!hasBrowser)("runs a shell in the console, which ends with the page", async () => {
    await setPassword(stack);
    const context = await signedIn(browser as Browser, stack);
    const { page, complaints } = await visit(context, `${stack.url}/console/agents/${id}`);
    await page.getByRole("link", { name: "Terminal" }).click();
    const screen = page.locator(".terminal .xterm-rows");
    const shows = (text: RegExp) => vi.waitFor(async () => expect(await screen.textContent()).toMatch(text), waiting);
    await shows(/[$#]/);
    await page.keyboard.type("echo typed-$((40 + 2)); sleep 1006\n");
    await shows(/typed-42/);
    await vi.waitFor(async () => expect(await running()).toContain("sleep 1006"), waiting);
    await page.keyboard.press("F6");
    await page.keyboard.press("Enter");
    await page.getByText("Disconnected. The shell was ended.").waitFor();
    await vi.waitFor(async () => expect(await running()).not.toMatch(/sleep|bash/), waiting);
    await page.getByRole("button", { name: "Connect again" }).click();
    await shows(/[$#]/);
    await page.keyboard.type("exit 4\n");
    await page.getByText("The shell ended with code 4.").waitFor();
    expect(complaints).toEqual([]);
  });
});
