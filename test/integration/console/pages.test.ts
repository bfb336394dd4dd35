// Every page of the console in a real browser, with no, few and many rows, for an operator and a customer: no serious finding of
// axe, nothing wider than the window, no complaint of the browser. With STOKER_SCREENSHOTS=FOLDER it keeps a picture of each.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import axe from "axe-core";
import type { Browser, Page, Request } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildConsole } from "../../../scripts/build-console.ts";
import { browserPath, startBrowser } from "../../fakes/browser.ts";
import { type EveryTaskEngine, startEveryTaskEngine } from "../../fakes/every-task-engine.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";
import { chatModel, fillServer, type PageData, setPassword, speechModel } from "./page-data.ts";
import { fewRows, invoiceId, manyRows } from "./page-samples.ts";
import { signedIn, visit } from "./visit.ts";

if (browserPath === undefined)
  console.warn(
    "\n*** NOT PROVEN: that every page of the console is accessible. There is no chromium; scripts/test brings it.\n",
  );

const screenshots = process.env["STOKER_SCREENSHOTS"];

interface Look {
  readonly width: number;
  readonly scheme: "light" | "dark";
}
const desk: Look = { width: 1440, scheme: "light" };
const telephone: Look = { width: 390, scheme: "dark" };
const looks: readonly Look[] = [desk, { ...desk, scheme: "dark" }, { ...telephone, scheme: "light" }, telephone];

const customerPaths = [
  ...["/", "/first-call", "/playground", "/models", "/deployments", "/deployments/new", "/adapters", "/voices"],
  ...["/files", "/batches", "/containers", "/agents", "/aliases", "/keys", "/usage", "/usage?view=months"],
  ...["/projects", "/workload-identities", "/request-log", "/webhooks", "/limits", "/security", "/billing"],
  "/invoices",
];
const operatorPaths = [
  ...["/", "/fleet", "/fleet?view=hosts", "/enrolment", "/top", "/events", "/incidents", "/accounts"],
  ...["/all-deployments", "/requests", "/money", "/prices", "/providers", "/any-request-log", "/backups", "/audit"],
  "/identity-providers",
];

describe.skipIf(browserPath === undefined)("every page of the console", () => {
  let engine: EveryTaskEngine;
  let stack: Stack;
  let browser: Browser;
  let operator: string;
  let data: PageData;
  const fill = async () => {
    data ??= await fillServer(stack, engine.origin);
  };
  beforeAll(async () => {
    await buildConsole();
    browser = await startBrowser();
    engine = await startEveryTaskEngine([chatModel, speechModel]);
    stack = await startStack({ agents: 2, controlPlaneEnv: { HF_HUB_OFFLINE: "1" } });
    operator = await setPassword(stack);
  }, 240_000);
  afterAll(async () => {
    await browser?.close();
    await stack?.stop();
    await engine?.close();
  });

  /** Faults of the pages, each with its page and look. */
  async function faultsOf(
    email: string,
    paths: readonly string[],
    kind: string,
    prepare?: (page: Page) => Promise<void>,
  ): Promise<readonly string[]> {
    const context = await signedIn(browser, stack, email);
    const { page, complaints } = await visit(context, `${stack.url}/console`, {
      // The form for a deployment reports that the hub is disabled.
      refused: [503],
      refusedPath: "/v1/hub/models",
      prepare: async (opened) => {
        await opened.addInitScript(axe.source);
        await prepare?.(opened);
      },
    });
    const faults: string[] = [];
    const pending = requestsOf(page);
    for (const path of paths) {
      await show(page, desk);
      await open(page, path);
      const loading = page.getByRole("status", { name: "Loading", exact: true });
      await expect.poll(async () => pending.size + (await loading.count()), { timeout: 60_000 }).toBe(0);
      for (const look of looks) {
        for (const fault of await faultsIn(page, look))
          faults.push(`${path} at ${look.width} in ${look.scheme}: ${fault}`);
        if (screenshots !== undefined) await keep(page, join(screenshots, kind), path, look);
      }
      faults.push(...complaints.splice(0).map((text) => `${path}: ${text}`));
    }
    await context.close();
    return faults;
  }

  const patient = { timeout: 7_200_000 };
  const allPaths = [...new Set([...customerPaths, ...operatorPaths])];
  const detailsOfCustomer = () => [
    ...[
      `/deployments/${data.deployId}`,
      `/models/${encodeURIComponent(chatModel)}`,
      "/agents/a1",
      "/agents/a1/terminal",
      "/containers/c1/terminal",
    ],
    ...[`/request-log/${data.requestId}`, `/invoices/${invoiceId}`],
  ];
  const detailsOfOperator = async () => {
    const [node] = (await stack.call("GET", "/v1/admin/nodes")).body.nodes;
    return [
      ...["overview", "history", "events"].map((tab) => `/nodes/${node.node_id}?tab=${tab}`),
      ...["overview", "money", "limits", "keys"].map((tab) => `/accounts/${data.customer.uid}?tab=${tab}`),
      ...[`/all-deployments/${data.deployId}`, `/any-request-log/${data.requestId}`, "/money?tab=quarantine"],
    ];
  };

  it("is accessible and fits with nothing in it", patient, async () => {
    expect(await faultsOf(operator, allPaths, "empty")).toEqual([]);
  });

  it("is accessible and fits with a few rows", patient, async () => {
    await fill();
    const customer = [...customerPaths, ...detailsOfCustomer()];
    expect.soft(await faultsOf(data.customer.email, customer, "few-customer", fewRows)).toEqual([]);
    const paths = [...allPaths, ...(await detailsOfOperator())];
    expect(await faultsOf(operator, paths, "few-operator", fewRows)).toEqual([]);
  });

  it("is accessible and fits with a thousand rows of long names", patient, async () => {
    await fill();
    const customer = [...customerPaths, ...detailsOfCustomer()];
    expect.soft(await faultsOf(data.customer.email, customer, "many-customer", manyRows)).toEqual([]);
    const paths = [...allPaths, ...(await detailsOfOperator())];
    expect(await faultsOf(operator, paths, "many-operator", manyRows)).toEqual([]);
  });
});

/** Requests without a response. */
function requestsOf(page: Page): ReadonlySet<Request> {
  const pending = new Set<Request>();
  page.on("request", (request) => pending.add(request));
  page.on("requestfinished", (request) => pending.delete(request));
  page.on("requestfailed", (request) => pending.delete(request));
  return pending;
}

/** As a link of the console does: to load the whole program again for each page takes most of the time. */
async function open(page: Page, path: string): Promise<void> {
  const href = `/console${path}`;
  await page.getByRole("heading", { level: 1 }).waitFor();
  await page.evaluate(async (to) => {
    const { __TSR_ROUTER__: router } = globalThis as unknown as {
      readonly __TSR_ROUTER__: { navigate(options: { readonly href: string }): Promise<void> };
    };
    await router.navigate({ href: to });
    await new Promise((painted) => requestAnimationFrame(() => setTimeout(painted, 0)));
  }, href);
  expect(new URL(page.url()).pathname).toBe(new URL(href, page.url()).pathname);
  await page.getByRole("heading", { level: 1 }).waitFor();
}

const grave = ["serious", "critical"];

async function show(page: Page, { width, scheme }: Look): Promise<void> {
  await page.setViewportSize({ width, height: width < 500 ? 844 : 900 });
  await page.emulateMedia({ colorScheme: scheme, reducedMotion: "reduce" });
}

async function faultsIn(page: Page, look: Look): Promise<readonly string[]> {
  const { width } = look;
  await show(page, look);
  // Painted in the new size and scheme, at the end of all changes of colour, which start after the scheme has changed.
  await page.evaluate(async (scheme) => {
    const ends = (one: Animation) => one.effect?.getComputedTiming().endTime !== Number.POSITIVE_INFINITY;
    for (;;) {
      await new Promise((painted) => requestAnimationFrame(() => setTimeout(painted, 0)));
      const running = document.getAnimations().filter(ends);
      for (const one of running) one.finish();
      if (running.length === 0 && document.documentElement.dataset["mantineColorScheme"] === scheme) return;
    }
  }, look.scheme);
  const shown = page.evaluate(() => document.documentElement.scrollWidth);
  const violations = await page.evaluate(async () => {
    const { axe: tool } = globalThis as unknown as { axe: typeof axe };
    const found = await tool.run(document, { resultTypes: ["violations"] });
    return found.violations.map(({ id, impact, nodes }) => ({
      impact: impact ?? "",
      text: `${id} ${nodes.length} × ${nodes[0]?.html.slice(0, 200)} ${nodes[0]?.any[0]?.message ?? ""}`,
    }));
  });
  return [
    ...((await shown) > width ? [`is ${await shown} wide`] : []),
    ...violations.filter(({ impact }) => grave.includes(impact)).map(({ text }) => text),
  ];
}

const maxPictureHeight = 12_000;

async function keep(page: Page, folder: string, path: string, { width, scheme }: Look): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const name = path === "/" ? "overview" : path.slice(1).replaceAll(/[^\w-]+/g, "_");
  // Chromium paints no picture of any height.
  const whole = await page.evaluate(() => document.documentElement.scrollHeight);
  const fullPage = whole <= maxPictureHeight;
  await page.screenshot({ path: join(folder, `${name}-${width}-${scheme}.png`), fullPage });
}
