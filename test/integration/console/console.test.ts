// The console in a real browser: sign-in, every page of the menu, at a desk and on a telephone, without a complaint. A journey of a
// customer and one of an operator at every change.
import { readFile } from "node:fs/promises";
import type { Browser, BrowserContext, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildConsole } from "../../../scripts/build-console.ts";
import { browserPath, startBrowser } from "../../fakes/browser.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";
import { password, setPassword } from "./page-data.ts";
import { answersOf } from "./stand-ins.ts";
import { newContext, signedIn, type VisitOptions, visit } from "./visit.ts";

const telephone = { width: 390, height: 844 };
/** Requests of the first load, answers of the API included. */
const maxRequests = 15;

if (browserPath === undefined)
  console.warn(
    "\n*** NOT PROVEN: that the console works in a browser. There is no chromium; scripts/test brings it.\n",
  );

describe.skipIf(browserPath === undefined)("the console in a browser", () => {
  let stack: Stack;
  let browser: Browser;
  let context: BrowserContext;
  beforeAll(async () => {
    await buildConsole();
    browser = await startBrowser();
    stack = await startStack({ agents: 1, controlPlaneEnv: { STOKER_SIGN_UP: "open", HF_HUB_OFFLINE: "1" } });
    await setPassword(stack);
    context = await signedIn(browser, stack);
  }, 180_000);
  afterAll(async () => {
    await browser?.close();
    await stack?.stop();
  });

  const open = (path: string, options?: VisitOptions) => visit(context, `${stack.url}${path}`, options);
  /** Nobody is signed in, so the request for the session is refused. */
  const openSignedOut = async (path: string) =>
    visit(await newContext(browser), `${stack.url}${path}`, { refused: [401] });

  async function signIn(page: Page): Promise<void> {
    const { body: me } = await stack.call("GET", "/v1/me");
    await page.getByLabel("E-mail address").fill(me.email);
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Sign in" }).click();
  }

  it("shows every page of the menu, which a telephone opens by a button", async () => {
    const { page, complaints, requests } = await openSignedOut("/console/limits");
    expect(requests.length).toBeLessThanOrEqual(maxRequests);
    await signIn(page);
    // Whoever had to sign in is where they were going.
    await page.getByRole("heading", { name: "Limits", level: 1 }).waitFor();

    const links = page.getByRole("navigation").getByRole("link");
    const names = await links.allTextContents();
    expect(names.length).toBeGreaterThan(10);
    const show = async (name: string) => {
      await links.filter({ hasText: new RegExp(`^${name}$`) }).click();
      await page.getByRole("heading", { level: 1 }).waitFor();
      await page.waitForLoadState("networkidle");
      expect(await page.getByRole("heading", { level: 1 }).count(), name).toBe(1);
    };
    for (const name of names) await show(name);
    await page.setViewportSize(telephone);
    // What all pages look like there: pages.test.ts.
    for (const name of names.slice(0, 3)) {
      await page.getByRole("button", { name: "Open the menu" }).click();
      await show(name);
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      expect(width, `${name} on a telephone`).toBeLessThanOrEqual(telephone.width);
    }
    expect(complaints).toEqual([]);
  }, 180_000);

  it("shows the first key of a new account", async () => {
    const { page, complaints } = await openSignedOut("/console");
    await page.getByRole("link", { name: "Sign up" }).click();
    await page.getByLabel("E-mail address").fill("ada@example.com");
    await page.getByLabel("Name of the account").fill("ada");
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Sign up" }).click();
    const key = (await page.getByLabel("Your API key").locator("pre").textContent()) ?? "";
    const me = await stack.call("GET", "/v1/me", undefined, { authorization: `Bearer ${key}` });
    expect(me.body.email).toBe("ada@example.com");

    // The session ends without a word to the page: whoever signs in next in this tab is shown no key.
    await page.context().clearCookies();
    await page.getByRole("navigation").getByRole("link", { name: "Billing" }).click();
    await page.getByLabel("E-mail address").fill("ada@example.com");
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("navigation").getByRole("link", { name: "Overview" }).click();
    await page.getByRole("heading", { name: "Overview", level: 1 }).waitFor();
    await page.waitForLoadState("networkidle");
    expect(await page.content()).not.toContain(key);
    expect(complaints).toEqual([]);
  }, 120_000);

  it("finds an account, suspends it with a reason and lifts the suspension", async () => {
    const name = "customer";
    const body = { email: "customer@example.com", display_name: name, credit_usd: 25 };
    const { uid, api_key: key } = (await stack.call("POST", "/v1/admin/accounts", body)).body;
    const checklist = async () =>
      (await stack.call("GET", "/payment/checklist", undefined, { authorization: `Bearer ${key}` })).body;
    const { page, complaints } = await open("/console/accounts");
    await page.getByRole("searchbox").fill(`${name}@`);
    await expect.poll(() => page.getByRole("row").count()).toBe(2);
    await page.getByRole("link", { name }).click();
    await page.getByText("The account is in good standing.").waitFor();

    await page.getByRole("button", { name: "Suspend", exact: true }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("textbox", { name: "Reason", exact: true }).fill("abuse of the trial");
    await dialog.getByRole("button", { name: "Suspend" }).click();
    await page.getByRole("cell", { name: "abuse of the trial" }).waitFor();
    expect(await checklist()).toMatchObject({ suspended: true, suspend_reason: "admin" });

    await page.getByRole("button", { name: "Lift", exact: true }).click();
    await dialog.getByLabel("Reason").fill("they apologised");
    await dialog.getByRole("button", { name: "Lift" }).click();
    await page.getByText("The account is in good standing.").waitFor();
    const { entries } = (await stack.call("GET", `/v1/admin/audit?account=${uid}`)).body;
    expect(entries).toEqual(
      expect.arrayContaining([expect.objectContaining({ action: "account.suspend", note: "abuse of the trial" })]),
    );
    expect(await checklist()).toMatchObject({ suspended: false });
    expect(complaints).toEqual([]);
  }, 120_000);

  it("stores a file, saves it again and deletes it", async () => {
    const { page, complaints } = await open("/console/files");
    await page.getByText("No files.").waitFor();
    await page.getByRole("button", { name: "Upload a file" }).click();
    const form = page.getByRole("dialog");
    const chosen = page.waitForEvent("filechooser");
    await form.getByRole("button", { name: "File" }).click();
    const line = {
      custom_id: "1",
      method: "POST",
      url: "/v1/chat/completions",
      body: { model: "a/b", messages: [] },
    };
    const buffer = Buffer.from(JSON.stringify(line));
    await (await chosen).setFiles({ name: "requests.jsonl", mimeType: "text/plain", buffer });
    await form.getByText("1 line, all checked.").waitFor();
    await form.getByRole("button", { name: "Upload", exact: true }).click();
    const row = page.getByRole("row", { name: "requests.jsonl" });
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      row.getByRole("link", { name: "Download" }).click(),
    ]);
    expect(await readFile(await download.path(), "utf8")).toBe(buffer.toString());
    await row.getByRole("button", { name: "Delete" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Delete" }).click();
    await page.getByText("No files.").waitFor();
    expect(complaints).toEqual([]);
  }, 120_000);

  it("deploys exactly what the server checked", async () => {
    const { page, complaints } = await open("/console/deployments/new");
    // The hub is disabled on this server.
    await page.getByRole("searchbox", { name: "Search the catalogue" }).fill("nothing");
    await page.getByRole("alert").filter({ hasText: "HF_HUB_OFFLINE" }).waitFor();
    const model = {
      name: "admin/nothing",
      task: "text-generation",
      downloads: 1200,
      likes: 3,
      gated: true,
      formats: [],
    };
    await page.route("**/v1/hub/models?*", (route) => route.fulfill({ json: { models: [model] } }));
    await page.getByRole("searchbox", { name: "Search the catalogue" }).fill("nothing at all");
    await page.getByText("text-generation · 1,200 downloads a month").waitFor();
    await page.getByRole("button", { name: "Choose: admin/nothing" }).click();
    await page.getByLabel("Concurrent requests per instance").fill("32");
    await page.getByLabel("Maximum instances").fill("3");
    const checked = page.waitForRequest(
      (one) =>
        one.url().endsWith("/deploy/llm/placement") &&
        one.postDataJSON().settings?.min_instances === 0 &&
        one.postDataJSON().model_name === "admin/nothing",
    );
    await page.getByLabel("Minimum instances").fill("0");
    const check = (await checked).postDataJSON();
    await page.route("**/deploy/llm", (route) =>
      route.fulfill({ status: 409, json: { error: "It stops here.", code: "conflict" } }),
    );
    const deploy = page.getByRole("button", { name: "Deploy", exact: true });
    await expect.poll(() => deploy.isEnabled()).toBe(true);
    const [posted] = await Promise.all([
      page.waitForRequest((one) => one.url().endsWith("/deploy/llm")),
      deploy.click(),
    ]);
    expect(posted.postDataJSON()).toEqual(check);
    expect(check).toMatchObject({ max_batch_size: 32, settings: { min_instances: 0, max_instances: 3 } });
    await page.getByText("It stops here.").waitFor();
    expect(complaints.filter((one) => !/status of (4|503)/.test(one))).toEqual([]);
  }, 120_000);

  it("lists adapters, batches, voices, containers and agents with escaped names, and runs their actions", async () => {
    // None of these is here: a stand-in answers as the interface says.
    const name = "<img src=x onerror=alert(1)>";
    const answers = answersOf("fake/chat", name);
    const acts: string[] = [];
    const { page, complaints } = await open("/console/adapters", {
      prepare: (opened) =>
        opened.route(/\/v1\/(user\/loras|batches|voices|containers|agent|lora)\b/, (route) => {
          const { pathname } = new URL(route.request().url());
          if (route.request().method() === "GET") return route.fulfill({ json: answers[pathname] });
          acts.push(`${route.request().method()} ${pathname}`);
          return route.fulfill({ json: {} });
        }),
    });
    const main = page.getByRole("main");
    const dialog = page.getByRole("dialog");
    const act = async (button: string, confirm: string | undefined, sent: string) => {
      await main.getByRole("button", { name: button, exact: true }).first().click();
      if (confirm !== undefined) {
        await dialog.getByRole("button", { name: confirm, exact: true }).waitFor();
        const word = dialog.getByRole("textbox");
        if ((await word.count()) > 0) await word.fill(name);
        await dialog.getByRole("button", { name: confirm, exact: true }).click();
      }
      await expect.poll(() => acts).toContain(sent);
      await dialog.waitFor({ state: "detached" });
    };
    for (const [link, texts, button, sent] of [
      ["Adapters", [name, "loaded by 2 instances"], "Delete", "DELETE /v1/lora/you%2Fadapter"],
      ["Batches", [name, "3 of 5 · ✕ 1 failed"], "Cancel batch", "POST /v1/batches/batch_1/cancel"],
      ["Voices", [name, "you"], "Delete", "DELETE /v1/voices/v1"],
      ["GPU rentals", [name, "ssh -p 22022 ubuntu@203.0.113.7"], "Delete", "DELETE /v1/containers/c1"],
      ["Agents", [name, "backup in progress"], undefined, ""],
    ] as const) {
      await page.getByRole("navigation").getByRole("link", { name: link, exact: true }).click();
      for (const text of texts) await main.getByText(text).first().waitFor();
      if (button !== undefined) await act(button, button, sent);
    }
    await main.getByRole("link", { name }).click();
    await main.getByRole("button", { name: "Update to 2.0" }).waitFor();
    await act("Stop", "Stop", "POST /v1/agent/a1/stop");
    await page.getByRole("tab", { name: "Backups" }).click();
    await act("Create backup", undefined, "POST /v1/agent/a1/backup");
    await act("Restore", "Restore", "POST /v1/agent/a1/backups/bk-1/restore");
    await act("Verify", undefined, "POST /v1/agent/a1/backups/bk-1/verify");
    expect(await page.locator("img").count()).toBe(0);
    expect(complaints).toEqual([]);
  }, 120_000);

  it("finds a page by Ctrl-K, and says which page does not exist", async () => {
    const { page, complaints } = await open("/console/nothing");
    await page.getByRole("heading", { name: "Page not found" }).waitFor();
    await page.keyboard.press("Control+k");
    await page.getByPlaceholder("Search pages and actions").fill("webh");
    await page.keyboard.press("Enter");
    await page.getByText("No deliveries in the last 7 days").waitFor();
    expect(complaints).toEqual([]);
  }, 120_000);

  it("loads a page again whose script failed to load", async () => {
    const { page } = await open("/console");
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    let cuts = 0;
    await page.route("**/console/assets/limits-*.js", (route) => (cuts++ === 0 ? route.abort() : route.continue()));
    await page.getByRole("navigation").getByRole("link", { name: "Limits" }).click();
    await page.getByRole("heading", { name: "Limits", level: 1 }).waitFor();
    expect(cuts).toBeGreaterThan(1);
  }, 120_000);
});
