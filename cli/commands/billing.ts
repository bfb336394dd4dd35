import { InvalidArgumentError, Option } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import type { Command } from "../command.ts";

type Invoice = Responses["GET /payment/invoices"]["invoices"][number];

type WholeInvoice = Responses["GET /payment/invoices/{invoice_id}"];

type Funds = Responses["GET /payment/funds"];

type Config = Responses["GET /payment/config"];

type Alerts = Responses["GET /payment/limit-alerts"];

type KeyLimit = Responses["GET /payment/key-limits"][number];

export function addBillingCommands(program: Command): void {
  const billing = program.command("billing").description("invoices, limits and top-ups of your account");

  const invoice = billing.command("invoice").description("invoices of your account");
  addInvoiceList(invoice.command("list").example("stoker billing invoice list"));
  // Its old name.
  addInvoiceList(billing.command("invoices", { hidden: true }));

  invoice
    .command("get <invoice_id>", { isDefault: true })
    .description("show an invoice with its lines")
    .example("stoker billing invoice get inv_1")
    .run(async (terminal, id: string) => {
      const one = await terminal.api.call<WholeInvoice>("GET", `/payment/invoices/${encodeURIComponent(id)}`);
      if (terminal.isStructured) return terminal.show(one, String);
      const total = { model: "total", units: "", rounded_amount: one.rounded_total };
      terminal.rows([...one.lines, total], {
        MODEL: "model",
        UNITS: (line) => String(line.units),
        USD: (line) => (line.rounded_amount / 100).toFixed(2),
      });
    });

  billing
    .command("payments")
    .description("list top-ups that wait or failed, and credits, newest first")
    .example("stoker billing payments")
    .run(async (terminal) => {
      const found = await terminal.api.call<Funds>("GET", "/payment/funds?limit=100");
      if (terminal.isStructured) return terminal.show(found, String);
      terminal.rows(
        found.payments,
        {
          CREATED: (one) => new Date(one.created_at * 1000).toISOString().slice(0, 10),
          KIND: "kind",
          USD: (one) => (one.amount / 100).toFixed(2),
          STATUS: (one) => (one.status === "done" ? "credited" : one.status),
          REASON: (one) => one.error_message ?? "",
        },
        { empty: "No payments. Add funds: `stoker billing funds USD`" },
      );
    });

  billing
    .command("limit [usd]")
    .description("show or set the monthly spending limit (none: no limit)")
    .example("stoker billing limit 500")
    .run(async (terminal, given: string | undefined) => {
      const config =
        given === undefined
          ? await terminal.api.call<{ limit: number }>("GET", "/payment/config")
          : await terminal.api.call<{ limit: number }>("POST", "/payment/config", { limit: usdOrNone(given) });
      terminal.show(config, ({ limit }) => (limit < 0 ? "none" : exact(limit)));
    });

  billing
    .command("alerts [url]")
    .description("list alerts of monthly limits, or set the webhook URL that receives them (none: no URL)")
    .example("stoker billing alerts https://example.com/alerts")
    .addOption(new Option("--mail <when>", "also mail alerts to the account's address").choices(["on", "off"]))
    .run(async (terminal, url: string | undefined, { mail }: { mail?: "on" | "off" }) => {
      if (url !== undefined || mail !== undefined) {
        const webhook = url === undefined ? {} : { webhook: url === "none" ? "" : url };
        const mailed = mail === undefined ? {} : { alert_mail: mail === "on" };
        const config = await terminal.api.call<Config>("POST", "/payment/config", {
          limit: null,
          ...webhook,
          ...mailed,
        });
        return terminal.show(config, alertTargets);
      }
      const found = await terminal.api.call<Alerts>("GET", "/payment/limit-alerts?limit=100");
      if (terminal.isStructured) return terminal.show(found, String);
      terminal.rows(
        found.alerts,
        {
          MONTH: "period",
          LIMIT: (one) => (one.scope === "account" ? "account" : `${one.scope} ${one.name}`),
          PERCENT: (one) => `${one.percent} %`,
          "SPENT USD": (one) => `${exact(one.spend)} of ${exact(one.limit)}`,
          WEBHOOK: (one) => one.webhook_id ?? "none",
          MAIL: (one) => one.mail ?? "none",
        },
        { empty: "No alerts: no monthly limit was nearly reached." },
      );
    });

  billing
    .command("funds <usd>")
    .description("add funds: prints the payment page, or asks the operator to credit the amount")
    .example("stoker billing funds 100")
    .run(async (terminal, given: string) => {
      const amount = Math.round(usd(given) * 100);
      if (amount < minFundsCents || amount > maxFundsCents)
        throw new InvalidArgumentError(`Must be from USD ${minFundsCents / 100} to USD ${maxFundsCents / 100}.`);
      terminal.show(
        await terminal.api.call<{ checkout_url: string | null }>("POST", "/payment/funds", { amount }),
        ({ checkout_url: page }) => page ?? `Asked the operator to credit USD ${(amount / 100).toFixed(2)}.`,
      );
    });

  billing
    .command("topup")
    .description("add an amount automatically when the funds fall below a threshold")
    .example("stoker billing topup --amount 100 --threshold 20")
    .option("--amount <usd>", "amount to add", usdAtMost)
    .option("--threshold <usd>", "funds that trigger a top-up", usdAtMost)
    .option("--off", "disable automatic top-ups")
    .run(async (terminal, flags: { amount?: number; threshold?: number; off?: boolean }) => {
      const body = {
        amount: Math.round((flags.amount ?? 0) * 100),
        threshold: Math.round((flags.threshold ?? 0) * 100),
        enabled: flags.off !== true,
      };
      await terminal.api.call("POST", "/payment/topup", body);
      terminal.show(body, () => (body.enabled ? "top-up is on" : "top-up is off"));
    });

  billing
    .command("key-limits [token_id] [usd]")
    .description("show the monthly limits of API keys, or set one (none: no limit, 0: blocked)")
    .example("stoker billing key-limits key-ada 50")
    .run(async (terminal, key: string | undefined, given: string | undefined) => {
      if (key !== undefined && given === undefined)
        throw new InvalidArgumentError("Limit missing: an amount in USD, or none.");
      const limits =
        key === undefined
          ? await terminal.api.call<KeyLimit[]>("GET", "/payment/key-limits")
          : await terminal.api.call<KeyLimit[]>("POST", "/payment/key-limits", {
              token_id: key,
              limit: usdOrNone(given ?? "none"),
            });
      if (terminal.isStructured) return terminal.show(limits, String);
      terminal.rows(limits, {
        KEY: "token_id",
        NAME: "name",
        "LIMIT USD": (one) => (one.limit === null ? "none" : exact(one.limit)),
        "SPENT USD": (one) => one.spend.toFixed(6),
      });
    });
}

/** Bounds of the API, in cents. Checked here to report them in USD. */
const minFundsCents = 100;
const maxFundsCents = 100_000_000;

/** At least two decimals, more if the amount has them. */
/** Where alerts of limits go. */
function alertTargets({ webhook, alert_mail: isMailed, sends_mail: sendsMail }: Config): string {
  const mail = sendsMail ? (isMailed ? "on" : "off") : "off (this server sends no mails)";
  return `webhook ${webhook ?? "none"}, mail ${mail}`;
}

const exact = (amount: number): string => amount.toFixed(9).replace(/(\.\d\d\d*?)0+$/, "$1");

function usdAtMost(text: string): number {
  const value = usd(text);
  if (value * 100 > maxFundsCents) throw new InvalidArgumentError(`Must be at most USD ${maxFundsCents / 100}.`);
  return value;
}

function usd(text: string): number {
  const value = Number(text);
  if (!Number.isFinite(value) || value < 0) throw new InvalidArgumentError("Must be an amount in USD, such as 25.");
  return value;
}

const usdOrNone = (text: string): number => (text === "none" ? -1 : usd(text));

const addInvoiceList = (command: Command): Command =>
  command
    .description("list invoices, newest first")
    .option("--limit <count>", "maximum number of invoices, up to 50", "12")
    .run(async (terminal, flags: { limit: string }) => {
      const path = `/payment/invoices?${new URLSearchParams({ limit: flags.limit })}`;
      const list = await terminal.api.call<{ invoices: Invoice[] }>("GET", path);
      if (terminal.isStructured) return terminal.show(list, String);
      terminal.rows(
        list.invoices,
        {
          MONTH: "period",
          STATUS: "status",
          "TOTAL USD": (one) => (one.total / 100).toFixed(2),
          "UNPAID USD": (one) => (one.amount_due / 100).toFixed(2),
          INVOICE: "id",
        },
        { empty: "No invoices. Usage of the running month: `stoker usage`" },
      );
    });
