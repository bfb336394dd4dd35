// The operator's pages of the console in a real browser: accounts, the view of a customer, deployments of all accounts, requests,
// money, audit, prices, backups.
import { readFile } from "node:fs/promises";
import type { Browser, BrowserContext } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildConsole } from "../../../scripts/build-console.ts";
import { query } from "../../e2e/spine/database.ts";
import { browserPath, goTo, startBrowser } from "../../fakes/browser.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";
import { setPassword } from "./page-data.ts";
import { signedIn, type VisitOptions, visit } from "./visit.ts";

if (browserPath === undefined)
  console.warn(
    "\n*** NOT PROVEN: the operator's pages of the console. There is no chromium; scripts/test brings it.\n",
  );

describe.skipIf(browserPath === undefined)("the operator's console in a browser", () => {
  let stack: Stack;
  let browser: Browser;
  let context: BrowserContext;
  beforeAll(async () => {
    await buildConsole();
    browser = await startBrowser();
    stack = await startStack({ controlPlaneEnv: { HF_HUB_OFFLINE: "1" } });
    await setPassword(stack);
    context = await signedIn(browser, stack);
  }, 180_000);
  afterAll(async () => {
    await browser?.close();
    await stack?.stop();
  });

  interface Customer {
    readonly uid: string;
    readonly name: string;
    readonly call: Stack["call"];
  }

  let customers = 0;
  async function createCustomer(): Promise<Customer> {
    customers += 1;
    const name = `customer-${customers}`;
    const body = { email: `${name}@example.com`, display_name: name, credit_usd: 25 };
    const { uid, api_key: key } = (await stack.call("POST", "/v1/admin/accounts", body)).body;
    return {
      uid,
      name,
      call: (method, path, sent) => stack.call(method, path, sent, { authorization: `Bearer ${key}` }),
    };
  }

  /** Pending: no host has such a GPU. */
  async function deploy({ call, name }: Customer): Promise<string> {
    const body = {
      model_name: `${name}/model`,
      gpu: "L4-24GB",
      num_gpus: 1,
      max_batch_size: 4,
      hf: { repo: "example/model" },
      settings: { min_instances: 1, max_instances: 1 },
    };
    const made = await call("POST", "/deploy/llm", body);
    expect(made.status, JSON.stringify(made.body)).toBe(200);
    return made.body.deploy_id;
  }

  const open = (path: string, options?: VisitOptions) => visit(context, `${stack.url}/console${path}`, options);

  const audited = async (account: string) =>
    (await stack.call("GET", `/v1/admin/audit?account=${account}`)).body.entries.map(
      ({ action, note }: { action: string; note: string }) => `${action} ${note}`.trim(),
    );

  it("creates an account and a link that signs its owner in without a key or password", async () => {
    const { page, complaints } = await open("/accounts");
    await page.getByRole("button", { name: "Create an account" }).click();
    const dialog = page.getByRole("dialog", { name: "Create an account" });
    await dialog.getByRole("textbox", { name: "E-mail address" }).fill("linked@example.com");
    await dialog.getByRole("textbox", { name: "Name", exact: true }).fill("linked");
    await dialog.getByRole("button", { name: "Create", exact: true }).click();
    await dialog.getByRole("group", { name: "First API key, shown only once" }).waitFor();
    await dialog.getByRole("button", { name: "Create a sign-in link" }).click();
    const link = dialog.getByRole("group", { name: "Sign-in link, shown only once" }).locator("pre");
    await link.waitFor();
    const url = (await link.textContent()) as string;
    const context = await browser.newContext();
    const customer = await context.newPage();
    await customer.goto(url);
    await customer.getByRole("button", { name: "Sign in" }).click();
    await customer.getByText("linked@example.com").waitFor();
    await context.close();
    // The operator stays signed in.
    await dialog.getByRole("link", { name: "Open the account" }).click();
    await page.getByRole("heading", { name: "linked" }).waitFor();
    expect(complaints).toEqual([]);
  }, 120_000);

  it("credits an account once, and sets its limits", async () => {
    const { uid, call } = await createCustomer();
    const { page, complaints } = await open(`/accounts/${uid}?tab=limits`);
    await page.getByLabel("Concurrent requests per model").fill("300");
    await page.getByLabel("Maximum of L4-24GB").fill("3");
    await page.getByLabel("Reason").fill("a launch");
    await page.getByRole("button", { name: "Save limits" }).click();
    await page.getByText("Limits saved.").waitFor();
    expect((await call("GET", "/v1/me/rate_limit")).body).toMatchObject({ rate_limit: 300 });
    expect((await call("GET", "/v1/me/gpu_limit")).body.limits).toMatchObject({ "L4-24GB": 3, "H100-80GB": 8 });

    await page.getByRole("button", { name: "Grant credit" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Amount (USD)").fill("10");
    await dialog.getByRole("textbox", { name: "Reason", exact: true }).fill("goodwill");
    await dialog.getByRole("button", { name: "Grant credit" }).click();
    await page.getByText("Credited.").waitFor();
    await page.getByRole("tab", { name: "Overview" }).click();
    await expect.poll(() => page.getByText("$35.00").count()).toBeGreaterThan(0);
    expect(complaints).toEqual([]);
  }, 120_000);

  it("views an account as its owner does, changes nothing, and ends the view by one click", async () => {
    const customer = await createCustomer();
    const id = await deploy(customer);
    const { page, complaints } = await open(`/accounts/${customer.uid}`, { refused: [403] });
    await page.getByRole("button", { name: "View as customer" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "View as customer" }).click();
    const banner = page.getByText(`You view the account of ${customer.name}`);
    await banner.waitFor();
    expect(await page.getByRole("link", { name: "Accounts" }).count()).toBe(0);

    // The view survives a reload of the page.
    await goTo(page, `${stack.url}/console/deployments/${id}`);
    await banner.waitFor();
    const stop = page.getByRole("button", { name: "Stop" });
    await stop.waitFor();
    expect(await stop.isDisabled()).toBe(true);
    await page.getByRole("tab", { name: "Settings" }).click();
    expect(await page.getByRole("button", { name: "Save scale" }).isDisabled()).toBe(true);
    // Nor does the server let the session change anything.
    const refused = await page.evaluate(
      ({ uid, path }) =>
        fetch(path, { method: "POST", headers: { "x-stoker-act-as": uid } }).then(({ status }) => status),
      { uid: customer.uid, path: `/deploy/${id}/stop` },
    );
    expect(refused).toBe(403);
    await goTo(page, `${stack.url}/console/playground`);
    await page.getByRole("heading", { name: "Page not found" }).waitFor();

    await page.getByRole("button", { name: "End view" }).click();
    await page.getByRole("heading", { name: customer.name }).waitFor();
    expect(await banner.count()).toBe(0);
    expect(await page.getByRole("button", { name: "Suspend", exact: true }).isEnabled()).toBe(true);
    await expect
      .poll(() => audited(customer.uid))
      .toEqual(expect.arrayContaining(["account.view", "account.view_begin", "account.view_end"]));
    expect((await customer.call("GET", `/deploy/${id}`)).body.status).not.toBe("stopping");
    expect(complaints).toEqual([]);
  }, 120_000);

  it("stops the deployment of a customer with a reason", async () => {
    const customer = await createCustomer();
    const id = await deploy(customer);
    const { page, complaints } = await open("/all-deployments?kind=model");
    await page.getByRole("searchbox").fill(customer.name);
    await page.getByRole("link", { name: `${customer.name}/model` }).click();
    await page.getByRole("button", { name: "Stop" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByText(`It belongs to ${customer.name}`).waitFor();
    await dialog.getByLabel("Reason").fill("it floods the hub");
    await dialog.getByRole("button", { name: "Stop" }).click();
    await page.getByRole("button", { name: "Start", exact: true }).waitFor();
    expect((await customer.call("GET", `/deploy/${id}`)).body.status).toBe("stopped");
    await page.getByRole("tab", { name: "Events" }).click();
    await page.getByText("Status: stopped").waitFor();
    expect(await audited(customer.uid)).toContain("deployment.stop it floods the hub");
    expect(complaints).toEqual([]);
  }, 120_000);

  it("decides requests with a note that the customer reads", async () => {
    const customer = await createCustomer();
    await customer.call("POST", "/v1/me/rate_limit/request", { rate_limit: 400, reason: "nightly evals" });
    await customer.call("POST", "/v1/me/gpu_pool/request", { requested_max: { "L4-24GB": 16 }, reason: "a launch" });
    const { page, complaints } = await open("/requests");
    const ofCustomer = page.getByRole("listitem").filter({ hasText: customer.name });
    const dialog = page.getByRole("dialog");

    const rates = ofCustomer.filter({ hasText: "400 concurrent requests" });
    await rates.getByText("Now: 200 concurrent requests").waitFor();
    await rates.getByRole("button", { name: "Deny" }).click();
    await dialog.getByLabel("Note for the customer").fill("ask again in May");
    await dialog.getByRole("button", { name: "Deny" }).click();
    await rates.waitFor({ state: "detached" });

    await ofCustomer.filter({ hasText: "16 × L4-24GB" }).getByRole("button", { name: "Approve" }).click();
    await dialog.getByLabel("Note for the customer").fill("enjoy");
    await dialog.getByRole("button", { name: "Approve" }).click();
    await ofCustomer.first().waitFor({ state: "detached" });
    expect((await customer.call("GET", "/v1/me/gpu_limit")).body.limits["L4-24GB"]).toBe(16);

    // As the customer sees it.
    await goTo(page, `${stack.url}/console/accounts/${customer.uid}`);
    await page.getByRole("button", { name: "View as customer" }).click();
    await dialog.getByRole("button", { name: "View as customer" }).click();
    await page.getByRole("link", { name: "Limits" }).click();
    await page.getByRole("row", { name: "400 concurrent requests" }).getByText("ask again in May").waitFor();
    await page.getByRole("row", { name: "16 × L4-24GB" }).getByText("enjoy").waitFor();
    expect(complaints).toEqual([]);
  }, 120_000);

  it("shows whether money is safe, and accounts by the reason of their suspension", async () => {
    const customer = await createCustomer();
    await stack.call("POST", `/v1/admin/accounts/${customer.uid}/suspend`, {
      note: "abuse",
      reason: "overdue-invoices",
    });
    const { page, complaints } = await open("/money");
    await page.getByText("The ledger is balanced.").waitFor();
    await page.getByRole("tab", { name: "Quarantine" }).click();
    await page.getByText("No records in quarantine.").waitFor();
    await page.getByRole("tab", { name: "Spool" }).click();
    await page.getByText("No host has unsent usage.").waitFor();
    await page.getByRole("tab", { name: "Overview" }).click();
    await page.getByRole("link", { name: "overdue-invoices" }).click();
    await page.getByRole("link", { name: customer.name }).waitFor();
    expect(await page.getByRole("row").count()).toBe(2);
    expect(complaints).toEqual([]);
  }, 120_000);

  it("finds acts in the audit log and saves all of them as CSV", async () => {
    const customer = await createCustomer();
    await stack.call("POST", `/v1/admin/accounts/${customer.uid}/suspend`, { note: "=1+1" });
    const { page, complaints } = await open("/audit");
    await page.getByRole("combobox", { name: "Account", exact: true }).fill(customer.name);
    await page.getByRole("option", { name: `${customer.name} · ${customer.name}@example.com` }).click();
    await expect.poll(() => new URL(page.url()).searchParams.get("account")).toBe(customer.uid);
    await page.getByRole("row", { name: "account.suspend" }).waitFor();
    await page.getByLabel("Action or its noun").fill("account.suspend");
    await expect.poll(() => page.getByRole("row").count()).toBe(2);
    const saved = page.waitForEvent("download");
    await page.getByRole("button", { name: "CSV of all matches" }).click();
    const csv = await readFile(await (await saved).path(), "utf8");
    expect(csv.trim().split("\r\n")).toHaveLength(2);
    // A spreadsheet must not run it.
    expect(csv).toContain("'=1+1");
    expect(csv).toContain(`${customer.name}@example.com`);
    expect(complaints).toEqual([]);
  }, 120_000);

  it("adds an identity provider, changes it, and creates and ends its SCIM token", async () => {
    const { page, complaints } = await open("/identity-providers");
    await page.getByRole("button", { name: "Add a provider" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByLabel("Issuer").fill("https://login.example.com");
    await dialog.getByLabel("Name").fill("Okta");
    await dialog.getByLabel("Client id").fill("0oa1");
    await dialog.getByLabel("Roles of groups").fill("cn=leads = admin");
    await dialog.getByRole("button", { name: "Add", exact: true }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Change", exact: true }).click();
    await dialog.getByLabel("Domains of e-mail addresses").fill("example.com");
    await dialog.getByRole("button", { name: "Save" }).click();
    await dialog.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "SCIM" }).click();
    await dialog.getByRole("button", { name: "Create a token" }).click();
    const token = (await dialog.getByRole("group", { name: "Token" }).textContent()) ?? "";
    const users = () =>
      stack.call("GET", "/scim/v2/Users", undefined, { authorization: `Bearer ${token.match(/scim_[\w-]+/)?.[0]}` });
    expect((await users()).status).toBe(200);
    await dialog.getByRole("button", { name: "End the token" }).click();
    await page.getByRole("dialog").last().getByRole("button", { name: "End the token" }).click();
    await dialog.getByText("Without a token the provider provisions nobody.").waitFor();
    expect((await users()).status).toBe(401);
    const { body } = await stack.call("GET", "/v1/admin/identity-providers");
    expect(body.providers).toMatchObject([
      { name: "Okta", domains: ["example.com"], role_of_group: { "cn=leads": "admin" }, has_scim_token: false },
    ]);
    expect(complaints).toEqual([]);
  }, 120_000);

  it("sets a price and a discount, and ends the discount", async () => {
    const { page, complaints } = await open("/prices");
    const dialog = page.getByRole("dialog");
    await page.getByRole("button", { name: "Set a price" }).click();
    await dialog.getByLabel("Public name of the model").fill("example/priced");
    await dialog.getByLabel("Per million input tokens").fill("1.5");
    await dialog.getByLabel("Reason").fill("a new model");
    await dialog.getByRole("button", { name: "Set a price" }).click();
    await page.getByRole("cell", { name: "$1.50 per million input tokens" }).waitFor();

    await page.getByRole("tab", { name: "Discounts" }).click();
    await page.getByRole("button", { name: "Create a discount" }).click();
    await dialog.getByLabel("Name").fill("spring");
    await dialog.getByLabel("Percent").fill("20");
    await dialog.getByLabel("Model").fill("example/priced");
    await dialog.getByLabel("Reason").fill("a sale");
    await dialog.getByRole("button", { name: "Create a discount" }).click();
    const spring = page.getByRole("row", { name: "spring" });
    await spring.getByText("20 %").waitFor();
    await spring.getByRole("button", { name: "End" }).click();
    await dialog.getByRole("button", { name: "End" }).click();
    await spring.getByRole("button", { name: "End" }).waitFor({ state: "detached" });
    expect(complaints).toEqual([]);
  }, 120_000);

  it("shows backups with their age, and those that are missing", async () => {
    const { page, complaints } = await open("/backups");
    await page.getByText("No backup is known.").waitFor();
    await page.getByText("The database was never restored.").waitFor();
    const at = (hours: number) => new Date(Date.now() - hours * 3_600_000).toISOString();
    await query(
      stack.databaseUrl,
      "insert into database_backup values ('old.stoker-backup', $1, 4096, 1200, '0.1.0', $2)",
      [at(30), at(29)],
    );
    await page.reload();
    await page.getByRole("cell", { name: "old.stoker-backup" }).waitFor();
    await page.getByText("older than 26 hours").waitFor();
    await page.getByText("● recent").waitFor();
    expect(complaints).toEqual([]);
  }, 120_000);
});
