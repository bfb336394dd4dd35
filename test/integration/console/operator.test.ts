// The operator's pages of the new console in a real browser: accounts, their deployments, and the view of a customer.
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { buildConsole } from "../../../scripts/build-console.ts";
import { browserPath, goTo, networkChanged, startBrowser } from "../../fakes/browser.ts";
import { type Stack, startStack } from "../../fakes/processes.ts";

const password = "correct horse battery";

if (browserPath === undefined)
  console.warn(
    "\n*** NOT PROVEN: the operator's pages of the new console. There is no chromium; scripts/test brings it.\n",
  );

describe.skipIf(browserPath === undefined)("the operator's console in a browser", () => {
  let stack: Stack;
  let browser: Browser;
  beforeAll(async () => {
    await buildConsole();
    browser = await startBrowser();
    stack = await startStack({ controlPlaneEnv: { HF_HUB_OFFLINE: "1" } });
    expect((await stack.call("POST", "/v1/me/password", { password })).status).toBe(200);
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

  /** A page of the signed-in operator. `refused`: statuses of responses that the test provokes. */
  async function visit(path: string, refused: readonly number[] = []): Promise<{ page: Page; complaints: string[] }> {
    const page = await (await browser.newContext()).newPage();
    page.setDefaultTimeout(60_000);
    const complaints: string[] = [];
    page.on("pageerror", (error) => complaints.push(String(error)));
    page.on("console", (message) => {
      const text = message.text();
      const isExpected =
        [401, ...refused].some((status) => text.includes(`${status}`)) || text.includes(networkChanged);
      if (message.type() === "error" && !isExpected) complaints.push(text);
    });
    await goTo(page, `${stack.url}/console/next${path}`);
    const { body: me } = await stack.call("GET", "/v1/me");
    await page.getByLabel("E-mail address").fill(me.email);
    await page.getByLabel("Password").fill(password);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("heading", { level: 1 }).waitFor();
    return { page, complaints };
  }

  const audited = async (account: string) =>
    (await stack.call("GET", `/v1/admin/audit?account=${account}`)).body.entries.map(
      ({ action, note }: { action: string; note: string }) => `${action} ${note}`.trim(),
    );

  it("finds an account, suspends it with a reason and lifts the suspension", async () => {
    const { uid, name, call } = await createCustomer();
    await createCustomer();
    const { page, complaints } = await visit("/accounts");
    await page.getByRole("searchbox").fill(`${name}@`);
    await expect.poll(() => page.getByRole("row").count()).toBe(2);
    await page.getByRole("link", { name }).click();
    await page.getByText("The account is in good standing.").waitFor();

    await page.getByRole("button", { name: "Suspend", exact: true }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("textbox", { name: "Reason", exact: true }).fill("abuse of the trial");
    await dialog.getByRole("button", { name: "Suspend" }).click();
    await page.getByRole("cell", { name: "abuse of the trial" }).waitFor();
    expect((await call("GET", "/payment/checklist")).body).toMatchObject({ suspended: true, suspend_reason: "admin" });

    await page.getByRole("button", { name: "Lift", exact: true }).click();
    await dialog.getByLabel("Reason").fill("they apologised");
    await dialog.getByRole("button", { name: "Lift" }).click();
    await page.getByText("The account is in good standing.").waitFor();
    expect(await audited(uid)).toEqual(expect.arrayContaining(["account.suspend abuse of the trial"]));
    expect((await call("GET", "/payment/checklist")).body).toMatchObject({ suspended: false });
    expect(complaints).toEqual([]);
  }, 120_000);

  it("credits an account once, and sets its limits", async () => {
    const { uid, call } = await createCustomer();
    const { page, complaints } = await visit(`/accounts/${uid}?tab=limits`);
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
    const { page, complaints } = await visit(`/accounts/${customer.uid}`, [403]);
    await page.getByRole("button", { name: "View as customer" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "View as customer" }).click();
    const banner = page.getByText(`You view the account of ${customer.name}`);
    await banner.waitFor();
    expect(await page.getByRole("link", { name: "Accounts" }).count()).toBe(0);

    // The view survives a reload of the page.
    await goTo(page, `${stack.url}/console/next/deployments/${id}`);
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
    await goTo(page, `${stack.url}/console/next/playground`);
    await page.getByRole("heading", { name: "Page not found" }).waitFor();

    await page.getByRole("button", { name: "End view" }).click();
    await page.getByRole("heading", { name: customer.name }).waitFor();
    expect(await banner.count()).toBe(0);
    expect(await page.getByRole("button", { name: "Suspend", exact: true }).isEnabled()).toBe(true);
    expect(await audited(customer.uid)).toContain("account.view");
    expect((await customer.call("GET", `/deploy/${id}`)).body.status).not.toBe("stopping");
    expect(complaints).toEqual([]);
  }, 120_000);

  it("stops the deployment of a customer with a reason", async () => {
    const customer = await createCustomer();
    const id = await deploy(customer);
    const { page, complaints } = await visit("/all-deployments?kind=model");
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
});
