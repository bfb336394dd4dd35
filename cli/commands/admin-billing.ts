import type { Command } from "commander";
import { accountsPath, uidOf } from "../account-uid.ts";
import { adminGroup } from "../admin-group.ts";
import { atLeast, money } from "../option-values.ts";
import { openTerminal } from "../terminal.ts";

interface Terms {
  readonly credit_line_usd: number;
  readonly due_days: number;
  readonly needs_payment_method: boolean;
}

interface TopupRequest {
  readonly id: string;
  readonly uid: string;
  readonly amount_usd: number;
  readonly state: string;
  readonly created_at: number;
}

interface TermsFlags {
  readonly creditLine?: number;
  readonly dueDays?: number;
  readonly paymentMethod?: boolean;
  readonly note: string;
}

const requestsPath = "/v1/admin/topup-requests";

export function addAdminBilling(program: Command): void {
  const terms = adminGroup(program).command("terms").description("what an account may owe, and for how long");

  terms
    .command("show <account>")
    .description("terms of an account (uid, e-mail address or display name)")
    .action(async (name: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const path = termsPath(await uidOf(terminal.api, name));
      terminal.show(await terminal.api.call<Terms>("GET", path), termsText);
    });
  terms
    .command("set <account>")
    .description("change terms; what is left out stays")
    .option("--credit-line <usd>", "what it may owe; 0: prepaid", money)
    .option("--due-days <n>", "days until an invoice is overdue", atLeast(0))
    .option("--payment-method", "it needs a payment method on file")
    .option("--no-payment-method", "it needs none")
    .requiredOption("--note <text>", "why; kept in the audit log")
    .action(async (name: string, flags: TermsFlags, command: Command) => {
      const terminal = openTerminal(command);
      const body = {
        credit_line_usd: flags.creditLine,
        due_days: flags.dueDays,
        needs_payment_method: flags.paymentMethod,
        note: flags.note,
      };
      const path = termsPath(await uidOf(terminal.api, name));
      terminal.show(await terminal.api.call<Terms>("POST", path, body), termsText);
    });

  const topup = adminGroup(program).command("topup").description("top-ups that wait for you (no payment provider)");
  topup
    .command("list")
    .description("what accounts asked for, oldest first")
    .action(async (_flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const { requests } = await terminal.api.call<{ requests: TopupRequest[] }>("GET", requestsPath);
      terminal.rows(requests, ["ID", "ACCOUNT", "USD", "SINCE"], (one) => [
        one.id,
        one.uid,
        one.amount_usd.toFixed(2),
        new Date(one.created_at * 1000).toISOString().slice(0, 16),
      ]);
    });
  for (const verb of ["fulfil", "reject"] as const) {
    topup
      .command(`${verb} <request>`)
      .description(verb === "fulfil" ? "credit one that was paid" : "refuse one: it counts as failed")
      .requiredOption("--note <text>", "why; kept in the audit log")
      .action(async (id: string, { note }: { note: string }, command: Command) => {
        const terminal = openTerminal(command);
        const path = `${requestsPath}/${encodeURIComponent(id)}/${verb}`;
        terminal.show(
          await terminal.api.call<TopupRequest>("POST", path, { note }),
          (one) => `${one.id}: USD ${one.amount_usd.toFixed(2)} of ${one.uid}, ${one.state}`,
        );
      });
  }
}

const termsPath = (uid: string) => `${accountsPath}/${uid}/terms`;

const termsText = (terms: Terms): string =>
  [
    terms.credit_line_usd > 0 ? `may owe USD ${terms.credit_line_usd.toFixed(2)}` : "prepaid",
    `invoices are due after ${terms.due_days} days`,
    terms.needs_payment_method ? "needs a payment method" : "needs no payment method",
  ].join("; ");
