import { type Command, InvalidArgumentError } from "commander";
import { openTerminal } from "../terminal.ts";

interface Invoice {
  readonly id: string;
  readonly status: string;
  readonly period: string;
  /** Cents. */
  readonly total: number;
  readonly amount_due: number;
  readonly hosted_invoice_url: string;
}

interface KeyLimit {
  readonly token_id: string;
  readonly name: string;
  /** USD per month; null: none. */
  readonly limit: number | null;
  readonly spend: number;
}

export function addBillingCommands(program: Command): void {
  const billing = program.command("billing").description("invoices, limits and top-ups of your account");

  billing
    .command("invoices")
    .description("invoices of closed months, newest first")
    .option("--limit <count>", "how many, up to 50", "12")
    .action(async (flags: { limit: string }, command: Command) => {
      const terminal = openTerminal(command);
      const path = `/payment/invoices?${new URLSearchParams({ limit: flags.limit })}`;
      const list = await terminal.api.call<{ invoices: Invoice[] }>("GET", path);
      if (terminal.json) return terminal.show(list, String);
      terminal.rows(list.invoices, ["MONTH", "STATUS", "USD", "DUE", "INVOICE"], (one) => [
        one.period,
        one.status,
        (one.total / 100).toFixed(2),
        (one.amount_due / 100).toFixed(2),
        one.id,
      ]);
    });

  billing
    .command("limit [usd]")
    .description("show or set what the account may spend per month (none: no limit)")
    .action(async (given: string | undefined, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const config =
        given === undefined
          ? await terminal.api.call<{ limit: number }>("GET", "/payment/config")
          : await terminal.api.call<{ limit: number }>("POST", "/payment/config", { limit: usdOrNone(given) });
      terminal.show(config, ({ limit }) => (limit < 0 ? "none" : exact(limit)));
    });

  billing
    .command("funds <usd>")
    .description("add funds: prints the page to pay on, or that the operator was asked to credit them")
    .action(async (given: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const amount = Math.round(usd(given) * 100);
      if (amount < leastFunds || amount > mostFunds)
        throw new InvalidArgumentError(
          `Give an amount from USD ${leastFunds / 100} to USD ${mostFunds / 100}: no less and no more is paid in at once.`,
        );
      terminal.show(
        await terminal.api.call<{ checkout_url: string | null }>("POST", "/payment/funds", { amount }),
        ({ checkout_url: page }) => page ?? `the operator was asked to credit USD ${(amount / 100).toFixed(2)}`,
      );
    });

  billing
    .command("topup")
    .description("add an amount by itself whenever the funds fall below a threshold")
    .option("--amount <usd>", "what is added", usdAtMost)
    .option("--threshold <usd>", "when the funds are below this", usdAtMost)
    .option("--off", "no more top-ups")
    .action(async (flags: { amount?: number; threshold?: number; off?: boolean }, command: Command) => {
      const terminal = openTerminal(command);
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
    .description("show what each key may spend per month, or set one (none: no limit, 0: blocked)")
    .action(async (key: string | undefined, given: string | undefined, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      if (key !== undefined && given === undefined) throw new InvalidArgumentError("Give the limit in USD, or none.");
      const limits =
        key === undefined
          ? await terminal.api.call<KeyLimit[]>("GET", "/payment/key-limits")
          : await terminal.api.call<KeyLimit[]>("POST", "/payment/key-limits", {
              token_id: key,
              limit: usdOrNone(given ?? "none"),
            });
      if (terminal.json) return terminal.show(limits, String);
      terminal.rows(limits, ["KEY", "NAME", "LIMIT", "SPENT"], (one) => [
        one.token_id,
        one.name,
        one.limit === null ? "none" : exact(one.limit),
        one.spend.toFixed(6),
      ]);
    });
}

/** Cents: the bounds of the API, which would tell them in cents. */
const leastFunds = 100;
const mostFunds = 100_000_000;

/** Cents, and what is below them: a limit of a thousandth is not one of nothing. */
const exact = (amount: number): string => amount.toFixed(9).replace(/(\.\d\d\d*?)0+$/, "$1");

function usdAtMost(text: string): number {
  const value = usd(text);
  if (value * 100 > mostFunds) throw new InvalidArgumentError(`Give at most USD ${mostFunds / 100}.`);
  return value;
}

function usd(text: string): number {
  const value = Number(text);
  if (!Number.isFinite(value) || value < 0) throw new InvalidArgumentError("Give an amount in USD, such as 25.");
  return value;
}

const usdOrNone = (text: string): number => (text === "none" ? -1 : usd(text));
