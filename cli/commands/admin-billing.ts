import type { Responses } from "../../proto/gen/responses.ts";
import { adminGroup, type Command } from "../command.ts";
import { atLeast, money } from "../option-values.ts";
import { utcMinute } from "../terminal.ts";
import { accountsPath, uidOf } from "./admin-account.ts";

type Terms = Responses["GET /v1/admin/accounts/{uid}/terms"];

type TopupRequest = Responses["GET /v1/admin/topup-requests"]["requests"][number];

interface TermsFlags {
  readonly creditLine?: number;
  readonly dueDays?: number;
  readonly paymentMethod?: boolean;
  readonly note: string;
}

const requestsPath = "/v1/admin/topup-requests";

export function addAdminBilling(program: Command): void {
  const terms = adminGroup(program).command("terms").description("billing terms of accounts");

  terms
    .command("get <account>")
    .alias("show")
    .description("show the terms of an account (uid, e-mail address or display name)")
    .example("stoker admin terms get ada")
    .run(async (terminal, name: string) => {
      const path = termsPath(await uidOf(terminal.api, name));
      terminal.show(await terminal.api.call<Terms>("GET", path), termsText);
    });
  terms
    .command("update <account>")
    .alias("set")
    .description("change terms; omitted options stay unchanged")
    .example('stoker admin terms update ada --due-days 30 --note "net 30"')
    .option("--credit-line <usd>", "maximum debt; 0: prepaid", money)
    .option("--due-days <n>", "days until an invoice is overdue", atLeast(0))
    .option("--payment-method", "require a payment method")
    .option("--no-payment-method", "require no payment method")
    .requiredOption("--note <text>", "reason, recorded in the audit log")
    .run(async (terminal, name: string, flags: TermsFlags) => {
      const body = {
        credit_line_usd: flags.creditLine,
        due_days: flags.dueDays,
        needs_payment_method: flags.paymentMethod,
        note: flags.note,
      };
      const path = termsPath(await uidOf(terminal.api, name));
      terminal.show(await terminal.api.call<Terms>("POST", path, body), termsText);
    });

  const topup = adminGroup(program)
    .command("topup")
    .description("pending top-up requests (without a payment provider)");
  topup
    .command("list")
    .description("list pending requests, oldest first")
    .example("stoker admin topup list")
    .run(async (terminal) => {
      const { requests } = await terminal.api.call<{ requests: TopupRequest[] }>("GET", requestsPath);
      terminal.rows(
        requests,
        {
          ID: "id",
          ACCOUNT: "email",
          USD: (one) => one.amount_usd.toFixed(2),
          SINCE: (one) => utcMinute(one.created_at),
        },
        { wide: { NAME: "display_name", UID: "uid" } },
      );
    });
  for (const verb of ["fulfil", "reject"] as const) {
    topup
      .command(`${verb} <request>`)
      .example(`stoker admin topup ${verb} chg_1 --note checked`)
      .description(verb === "fulfil" ? "credit a paid request" : "reject a request and mark it as failed")
      .requiredOption("--note <text>", "reason, recorded in the audit log")
      .run(async (terminal, id: string, { note }: { note: string }) => {
        const path = `${requestsPath}/${encodeURIComponent(id)}/${verb}`;
        terminal.show(
          await terminal.api.call<TopupRequest>("POST", path, { note }),
          (one) => `${one.id}: USD ${one.amount_usd.toFixed(2)} of ${one.email}, ${one.state}`,
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
