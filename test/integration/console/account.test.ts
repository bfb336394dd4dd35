// The account's pages of the new console in a real browser: a key, a first call, and where it is found again.
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildConsole } from "../../../scripts/build-console.ts";
import { browserPath, goTo, networkChanged, startBrowser } from "../../fakes/browser.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";

const password = "correct horse battery";

if (browserPath === undefined)
  console.warn(
    "\n*** NOT PROVEN: that the account's pages work in a browser. There is no chromium; scripts/test brings it.\n",
  );

describe.skipIf(browserPath === undefined)("the account's pages in a browser", () => {
  let stack: Stack;
  let browser: Browser;
  beforeAll(async () => {
    await buildConsole();
    browser = await startBrowser();
    stack = await startStack({ agents: 1, controlPlaneEnv: { HF_HUB_OFFLINE: "1" } });
    expect((await stack.call("POST", "/v1/me/password", { password })).status).toBe(200);
  }, 180_000);
  afterAll(async () => {
    await browser?.close();
    await stack?.stop();
  });

  async function visit(path: string): Promise<{ page: Page; complaints: string[] }> {
    const context = await browser.newContext();
    const { body: me } = await stack.call("GET", "/v1/me");
    const signedIn = await context.request.post(`${stack.url}/v1/auth/sign-in`, {
      data: { email: me.email, password },
    });
    expect(signedIn.status()).toBe(200);
    const page = await context.newPage();
    page.setDefaultTimeout(60_000);
    const complaints: string[] = [];
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("console", (message) => {
      const text = message.text();
      if (message.type() === "error" && !text.includes(networkChanged)) complaints.push(text);
    });
    await goTo(page, `${stack.url}/console/next${path}`);
    return { page, complaints };
  }

  const as = (token: string) => ({ authorization: `Bearer ${token}` });

  it("create a key with a budget, change and revoke it", async () => {
    const { page, complaints } = await visit("/keys");
    await page.getByRole("button", { name: "Create key" }).click();
    const form = page.getByRole("dialog");
    await form.getByLabel("Name").fill("ci");
    await form.getByLabel("Monthly budget (USD)").fill("25");
    await form.getByText("At most $25.00 a month.").waitFor();
    await form.getByRole("button", { name: "Create key" }).click();
    const secret = (await page.getByLabel("The new key").locator("pre").textContent()) ?? "";
    expect((await stack.call("GET", "/v1/models", undefined, as(secret))).status).toBe(200);
    await page.getByRole("button", { name: "I stored it" }).click();

    const row = page.getByRole("row", { name: "ci" });
    await row.getByText("$0.00 of $25.00").waitFor();
    await row.getByText("Inference · any model").waitFor();
    await row.getByRole("button", { name: "Change" }).click();
    await form.getByLabel("Monthly budget (USD)").fill("");
    await form.getByRole("button", { name: "Addresses, rate and end users" }).click();
    await form.getByLabel("Requests per minute").fill("60");
    await form.getByRole("button", { name: "Save" }).click();
    await row.getByText("Inference · any model · 60 requests/min").waitFor();
    await row.getByText("no limit").waitFor();

    await row.getByRole("button", { name: "Revoke" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Revoke" }).click();
    await row.waitFor({ state: "detached" });
    expect((await stack.call("GET", "/v1/models", undefined, as(secret))).status).toBe(401);
    expect(complaints).toEqual([]);
  }, 120_000);

  it("create a scoped token and say what it may do", async () => {
    const { page, complaints } = await visit("/keys");
    const section = page.getByRole("region", { name: "Scoped tokens" });
    await section.getByLabel("Spending limit (USD)").fill("0.5");
    await section.getByRole("button", { name: "Create token" }).click();
    const token = (await section.getByLabel("The new token").locator("pre").textContent()) ?? "";
    expect((await stack.call("GET", "/v1/models", undefined, as(token))).status).toBe(200);

    await section.getByRole("tab", { name: "Inspect" }).click();
    await section.getByRole("textbox", { name: "Token" }).fill(token);
    await section.getByRole("button", { name: "Inspect token" }).click();
    await section.getByText("The signature is valid").waitFor();
    await section.getByText("$0.00 of $0.50").waitFor();
    await section.getByRole("textbox", { name: "Token" }).fill("stk_no_token");
    await section.getByRole("button", { name: "Inspect token" }).click();
    await section.getByText("This is no scoped token").waitFor();

    await section.getByRole("tab", { name: "Sign it yourself" }).click();
    await section.getByText("jwt.encode(").waitFor();
    expect(complaints).toEqual([]);
  }, 120_000);
});
