// The new console in a real browser: sign-in, every page of the menu, at a desk and on a telephone, without a complaint.
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildConsole } from "../../../scripts/build-console.ts";
import { browserPath, goTo, networkChanged, startBrowser } from "../../fakes/browser.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";

const password = "correct horse battery";
const telephone = { width: 390, height: 844 };
/** Requests of the first load, answers of the API included. */
const maxRequests = 15;

if (browserPath === undefined)
  console.warn(
    "\n*** NOT PROVEN: that the new console works in a browser. There is no chromium; scripts/test brings it.\n",
  );

describe.skipIf(browserPath === undefined)("the new console in a browser", () => {
  let stack: Stack;
  let browser: Browser;
  beforeAll(async () => {
    await buildConsole();
    browser = await startBrowser();
    stack = await startStack({ agents: 1, controlPlaneEnv: { STOKER_SIGN_UP: "open", HF_HUB_OFFLINE: "1" } });
    expect((await stack.call("POST", "/v1/me/password", { password })).status).toBe(200);
  }, 180_000);
  afterAll(async () => {
    await browser?.close();
    await stack?.stop();
  });

  async function visit(path: string): Promise<{ page: Page; complaints: string[]; requests: string[] }> {
    const page = await (await browser.newContext()).newPage();
    page.setDefaultTimeout(60_000);
    const complaints: string[] = [];
    const requests: string[] = [];
    page.on("request", (request) => requests.push(request.url()));
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("console", (message) => {
      const text = message.text();
      // Who nobody is signed in as is asked by a request that is refused.
      if (message.type() === "error" && !text.includes("401") && !text.includes(networkChanged)) complaints.push(text);
    });
    await goTo(page, `${stack.url}${path}`);
    return { page, complaints, requests };
  }

  async function signIn(page: Page): Promise<void> {
    const { body: me } = await stack.call("GET", "/v1/me");
    await page.getByLabel("E-mail address").fill(me.email);
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Sign in" }).click();
  }

  it("shows every page of the menu, at a desk and on a telephone", async () => {
    const { page, complaints, requests } = await visit("/console/next/limits");
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
    for (const name of names) {
      await page.getByRole("button", { name: "Open the menu" }).click();
      await show(name);
      const width = await page.evaluate(() => document.documentElement.scrollWidth);
      expect(width, `${name} on a telephone`).toBeLessThanOrEqual(telephone.width);
    }
    expect(complaints).toEqual([]);
  }, 180_000);

  it("shows the first key of a new account", async () => {
    const { page, complaints } = await visit("/console/next");
    await page.getByRole("link", { name: "Sign up" }).click();
    await page.getByLabel("E-mail address").fill("ada@example.com");
    await page.getByLabel("Name of the account").fill("ada");
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Sign up" }).click();
    const key = await page.getByLabel("Your API key").locator("pre").textContent();
    const me = await stack.call("GET", "/v1/me", undefined, { authorization: `Bearer ${key}` });
    expect(me.body.email).toBe("ada@example.com");
    expect(complaints).toEqual([]);
  }, 120_000);

  it("finds a page by Ctrl-K, and says which page does not exist", async () => {
    const { page, complaints } = await visit("/console/next/nothing");
    await signIn(page);
    await page.getByRole("heading", { name: "Page not found" }).waitFor();
    await page.keyboard.press("Control+k");
    await page.getByPlaceholder("Search pages and actions").fill("webh");
    await page.keyboard.press("Enter");
    await page.getByText("No deliveries in the last 7 days").waitFor();
    expect(complaints).toEqual([]);
  }, 120_000);

  it("loads a page again whose script failed to load", async () => {
    const { page } = await visit("/console/next");
    await signIn(page);
    await page.getByRole("heading", { name: "Overview" }).waitFor();
    let cuts = 0;
    await page.route("**/console/next/assets/limits-*.js", (route) =>
      cuts++ === 0 ? route.abort() : route.continue(),
    );
    await page.getByRole("navigation").getByRole("link", { name: "Limits" }).click();
    await page.getByRole("heading", { name: "Limits", level: 1 }).waitFor();
    expect(cuts).toBeGreaterThan(1);
  }, 120_000);
});
