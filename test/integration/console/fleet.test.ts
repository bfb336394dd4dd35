// The operator's fleet in a real browser: hosts that really run, and a thousand GPUs that a test machine has not.
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { buildConsole } from "../../../scripts/build-console.ts";
import { browserPath, goTo, startBrowser } from "../../fakes/browser.ts";
import { type EveryTaskEngine, startEveryTaskEngine } from "../../fakes/every-task-engine.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";
import { scriptedFleet } from "../../fakes/scripted-fleet.ts";
import { cpuMs, cpuSession, median, watchEvents } from "./interaction-times.ts";
import { setPassword } from "./page-data.ts";
import { signedIn, visit } from "./visit.ts";

const model = "fake/chat";
const patience = { timeout: 60_000, interval: 200 };
const telephone = { width: 390, height: 844 };

if (browserPath === undefined)
  console.warn(
    "\n*** NOT PROVEN: that the fleet's pages work in a browser. There is no chromium; scripts/test brings it.\n",
  );

describe.skipIf(browserPath === undefined)("the fleet's pages in a browser", () => {
  let engine: EveryTaskEngine;
  let stack: Stack;
  let browser: Browser;
  let context: BrowserContext;
  beforeAll(async () => {
    await buildConsole();
    browser = await startBrowser();
    engine = await startEveryTaskEngine([model]);
    stack = await startStack({ agents: 2, controlPlaneEnv: { HF_HUB_OFFLINE: "1" } });
    await setPassword(stack);
    context = await signedIn(browser, stack);
    const made = await stack.call("POST", "/v1/admin/external", {
      name: model,
      task: "text-generation",
      url: engine.origin,
    });
    expect(made.status, JSON.stringify(made.body)).toBe(200);
    await vi.waitFor(async () => expect((await hostOf()).instances[0]?.phase).toBe("ready"), patience);
  }, 240_000);
  afterAll(async () => {
    await browser?.close();
    await stack?.stop();
    await engine?.close();
  });

  interface Host {
    readonly name: string;
    readonly condition: string;
    readonly operation: { readonly kind: string; readonly note: string } | null;
    readonly instances: readonly { readonly phase: string }[];
  }
  const hosts = async (): Promise<readonly Host[]> => (await stack.call("GET", "/v1/admin/nodes")).body.nodes;
  /** The one with the model. */
  async function hostOf(): Promise<Host> {
    const found = (await hosts()).find(({ instances }) => instances.length > 0);
    if (!found) throw new Error("the model is on no host");
    return found;
  }

  const open = (path: string, prepare?: (page: Page) => Promise<void>) =>
    visit(context, `${stack.url}/console${path}`, prepare && { prepare });

  /** Beside the title. */
  const status = (page: Page, text: string) => page.locator("main .status").first().filter({ hasText: text });

  const fitsTelephone = async (page: Page) => {
    await page.setViewportSize(telephone);
    // The page is laid out anew after the size has changed.
    const width = () => page.evaluate(() => document.documentElement.scrollWidth);
    await vi.waitFor(async () => expect(await width()).toBeLessThanOrEqual(telephone.width), patience);
  };

  it("shows every GPU with what uses it, and leads to its host", async () => {
    const { page, complaints } = await open("/fleet?by=health");
    const gpus = (await stack.call("GET", "/v1/admin/nodes")).body.nodes.flatMap(
      (node: { gpus: object[] }) => node.gpus,
    );
    await vi.waitFor(async () => expect(await page.locator(".gpu").count()).toBe(gpus.length), patience);
    await page.getByText("2 of 2").first().waitFor();
    // The keyboard: one tab stop, arrows between GPUs, Enter opens the host.
    await page.locator('.gpu[tabindex="0"]').focus();
    await page.keyboard.press("ArrowDown");
    await page.locator(".gpu-card", { hasText: "node-2 · Processor slot 0" }).waitFor();
    await page.keyboard.press("Escape");
    await page.locator(".gpu-card").waitFor({ state: "detached" });
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { name: "node-2", level: 1 }).waitFor();
    await page.goBack();
    await page.getByText("Hosts", { exact: true }).click();
    await page.getByRole("table", { name: "hosts" }).getByRole("link", { name: "node-1" }).waitFor();
    expect(page.url()).toContain("view=hosts");
    await fitsTelephone(page);
    expect(complaints).toEqual([]);
  }, 120_000);

  it("cordons and uncordons a host after a confirmation that names the command", async () => {
    const { name } = await hostOf();
    const { page, complaints } = await open("/fleet?view=hosts");
    await page.getByRole("table").getByRole("link", { name }).click();
    await page.getByRole("button", { name: "Cordon", exact: true }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Reason").fill("new fans");
    await dialog.getByText(`stoker node cordon ${name} --note 'new fans'`).waitFor();
    await dialog.getByRole("button", { name: "Cordon", exact: true }).click();
    await status(page, "◐ cordoned").waitFor();
    expect((await hostOf()).operation).toMatchObject({ kind: "cordon", note: "new fans" });
    // It names its model, and the customer whose it is.
    const instances = page.getByRole("table", { name: "instances" });
    await instances.getByRole("link", { name: model }).waitFor();
    await page.getByRole("button", { name: "Uncordon", exact: true }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Uncordon", exact: true }).click();
    await status(page, "● ready").waitFor();
    await page.getByRole("tab", { name: "Events" }).click();
    await page.getByText("Host back in use").first().waitFor();
    await page.getByText("new fans").first().waitFor();
    await page.getByRole("tab", { name: "History" }).click();
    await page.getByRole("figure").filter({ hasText: "Memory in use" }).waitFor();
    await fitsTelephone(page);
    expect(complaints).toEqual([]);
  }, 120_000);

  it("says before a drain what moves and where to, and shows its progress", async () => {
    const { name } = await hostOf();
    const other = name === "node-1" ? "node-2" : "node-1";
    const { page, complaints } = await open("/fleet?view=hosts");
    await page.getByRole("table").getByRole("link", { name }).click();
    await page.getByRole("button", { name: "Drain", exact: true }).click();
    const dialog = page.getByRole("dialog");
    const row = dialog.getByRole("region", { name: "Move" }).getByRole("row", { name: model });
    await row.getByRole("link", { name: other }).waitFor();
    await dialog.getByLabel("Deadline (minutes)").fill("20");
    await dialog.getByText(`stoker node drain ${name} --deadline 20m`).waitFor();
    await dialog.getByRole("button", { name: "Drain", exact: true }).click();
    await status(page, "◐ draining").waitFor();
    await page.getByText("Drained: nothing runs here.").waitFor();
    expect((await hostOf()).name, "where the preview said").toBe(other);
    await page.getByRole("button", { name: "Cancel the drain" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Cancel the drain" }).click();
    await status(page, "● ready").waitFor();

    // Nothing else may take it while the other host is out of use.
    expect((await stack.call("POST", `/v1/admin/nodes/${name}/cordon`, { note: "disks" })).status).toBe(200);
    await goTo(page, `${stack.url}/console/fleet?view=hosts`);
    await page.getByRole("table").getByRole("link", { name: other }).click();
    await page.getByRole("button", { name: "Drain", exact: true }).click();
    await page.getByRole("region", { name: "Cannot move" }).getByText("disks").waitFor();
    await page.getByText(`No other instance serves ${model}`).waitFor();
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    expect((await stack.call("POST", `/v1/admin/nodes/${name}/uncordon`, {})).status).toBe(200);
    expect((await hostOf()).operation).toBeNull();
    expect(complaints).toEqual([]);
  }, 180_000);

  it("creates a token with the line that joins a host, and says that the host waits", async () => {
    const { page, complaints } = await open("/enrolment");
    await page.getByText("on this machine only").waitFor();
    await page.getByLabel("Pool").fill("lab");
    await page.getByRole("button", { name: "Create token" }).click();
    const line = page.getByLabel("Run this on the host").locator("pre");
    const port = stack.rpcAddress.split(":").at(-1);
    await page.getByLabel("Address of the host").fill("https://10.0.0.7:9100");
    await vi.waitFor(
      async () =>
        expect(await line.textContent()).toMatch(
          new RegExp(
            `^stoker node join \\S+\\.\\S+\\.\\S+ --control 127.0.0.1:${port} --advertise https://10.0.0.7:9100$`,
          ),
        ),
      patience,
    );
    const { authority, tokens } = (await stack.call("GET", "/v1/admin/nodes/enrolment")).body;
    expect((await line.textContent())?.split(" ")[3]?.endsWith(`.${authority.sha256}`)).toBe(true);
    expect(tokens[0]).toMatchObject({ pool: "lab", used_at: null, node_id: null });
    await page.getByText("Waiting for the host to join").waitFor();
    await page.getByRole("table", { name: "tokens" }).getByText("waiting").waitFor();
    await page.getByRole("table", { name: "enrolled hosts" }).getByText("active").first().waitFor();
    await fitsTelephone(page);
    expect(complaints).toEqual([]);
  }, 120_000);

  it("lists what uses the most, and the events of the fleet", async () => {
    const search = "/v1/admin/accounts";
    const failing = { refused: [500], refusedPath: search };
    const { page, complaints } = await visit(context, `${stack.url}/console/top?by=deployment`, failing);
    await page.getByRole("table", { name: "deployments" }).getByRole("link", { name: model }).waitFor();
    await page.getByText("stoker top --by deployment").waitFor();
    await page.getByText("Hosts", { exact: true }).click();
    await page.getByRole("table", { name: "hosts" }).getByRole("link", { name: "node-1" }).waitFor();
    await fitsTelephone(page);
    await goTo(page, `${stack.url}/console/events?kind=host`);
    await page
      .getByText(/^Host joined with agent/)
      .first()
      .waitFor();
    await page.getByLabel("Host", { exact: true }).fill("node-2");
    await page.getByRole("button", { name: "Filter" }).click();
    await page.waitForURL(/node=node-2/);
    await page.getByRole("main").getByRole("link", { name: "node-2" }).first().waitFor();
    expect(await page.getByRole("main").getByRole("link", { name: "node-1" }).count()).toBe(0);

    const account = page.getByPlaceholder("Name, e-mail or uid");
    await page.getByLabel("Host", { exact: true }).fill("node-1");
    await page.route(`**${search}?*`, (route) => route.fulfill({ status: 500, json: {} }));
    await account.fill("nobody");
    await page.getByText("The search failed. Type again to retry.").waitFor();
    await page.unroute(`**${search}?*`);
    await account.fill("@");
    await page.getByRole("option").first().click();
    await page.waitForURL(/account=/);
    expect(await page.getByLabel("Host", { exact: true }).inputValue()).toBe("node-1");
    await page.getByRole("button", { name: "Filter" }).click();
    await page.waitForURL((url) => url.searchParams.get("node") === "node-1" && url.searchParams.has("account"));
    expect(complaints).toEqual([]);
  }, 120_000);

  it("shows a thousand GPUs on one screen, and at night answers each act within 100 ms", async () => {
    const fleet = scriptedFleet(125, 8);
    const { page, complaints } = await open("/fleet", async (opened) => {
      await opened.setViewportSize({ width: 1440, height: 900 });
      await opened.route("**/v1/admin/nodes", (route) => route.fulfill({ json: fleet }));
      await opened.addInitScript(watchEvents);
    });
    await vi.waitFor(async () => expect(await page.locator(".gpu").count()).toBe(1000), patience);
    const map = await page.locator(".fleet").boundingBox();
    expect(map?.height).toBeLessThan(900);
    await page.getByText("hosts need attention").waitFor();

    const cpu = await cpuSession(page);
    const cells = page.locator(".gpu");
    const shades = ["Memory", "Health", "Customer", "Use"].map((shade) => async () => {
      await page.locator(".mantine-SegmentedControl-root").getByText(shade, { exact: true }).click();
    });
    const points = [3, 333, 777].map((n) => () => cells.nth(n).hover());
    const keys = ["ArrowRight", "ArrowDown", "End", "Home"].map((key) => () => page.keyboard.press(key));
    const filters = ["H100-80GB", "L4-24GB"].map((type) => async () => {
      await page.getByRole("combobox", { name: "GPU type" }).click();
      await page.getByRole("option", { name: type }).click();
    });
    await cells.first().focus();
    const acts = [...shades, ...points, ...keys, ...filters];
    const took = [];
    for (const act of acts) took.push(await cpuMs(cpu, page, act));
    expect(await cells.count(), "of one type").toBeLessThan(400);
    expect(took).toHaveLength(acts.length);
    const seen = await page.evaluate(() => (globalThis as unknown as { eventMs: number[] }).eventMs);
    expect(seen.length).toBeGreaterThan(5);
    expect(median(took), `ms of the page's thread: ${took.map(Math.round)}`).toBeLessThan(100);
    expect(median(seen), `ms until the screen showed it: ${seen}`).toBeLessThan(100);
    expect(complaints).toEqual([]);
  }, 180_000);
});
