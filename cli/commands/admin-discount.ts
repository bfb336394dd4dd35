import { InvalidArgumentError } from "commander";
import type { Responses } from "../../proto/gen/responses.ts";
import { adminGroup, type Command } from "../command.ts";
import { utcMinute } from "../terminal.ts";
import { uidOf } from "./admin-account.ts";

type Discount = Responses["POST /v1/admin/discounts"];

interface GiveFlags {
  readonly name: string;
  readonly text?: string;
  readonly account?: string;
  readonly model?: string;
  readonly surface?: string;
  readonly from?: string;
  readonly to?: string;
  readonly note?: string;
}

const path = "/v1/admin/discounts";

export function addAdminDiscount(program: Command): void {
  const discount = adminGroup(program).command("discount").description("percentage discounts, shown on invoices");

  discount
    .command("list")
    .description("list all discounts, newest first")
    .example("stoker admin discount list")
    .run(async (terminal) => {
      const { discounts } = await terminal.api.call<{ discounts: Discount[] }>("GET", path);
      terminal.rows(discounts, {
        ID: "id",
        PERCENT: "percent",
        FOR: (one) => forText(one),
        FROM: (one) => utcMinute(one.effective_from),
        TO: (one) => (one.effective_to ? utcMinute(one.effective_to) : ""),
        NAME: "name",
      });
    });

  discount
    .command("create <percent>")
    .alias("give")
    .description("create a discount; without --account, --model and --surface it applies to everything")
    .example("stoker admin discount create 12.5 --name Spring --account ada")
    .requiredOption("--name <name>", "shown on invoices")
    .option("--text <text>", "shown on invoices")
    .option("--account <account>", "uid, e-mail address or display name")
    .option("--model <name>", "public name of one model")
    .option("--surface <surface>", "such as chat, text_completion, or gpu for deployment hours")
    .option("--from <time>", "start, Unix seconds or ISO 8601 (default: now)")
    .option("--to <time>", "end, Unix seconds or ISO 8601 (default: none)")
    .option("--note <text>", "reason, recorded in the audit log")
    .run(async (terminal, percent: string, flags: GiveFlags) => {
      const { name, text, account, model, surface, from, to, note } = flags;
      const body = {
        percent: percentOf(percent),
        name,
        text,
        model,
        surface,
        note,
        uid: account === undefined ? undefined : await uidOf(terminal.api, account),
        effective_from: from,
        effective_to: to,
      };
      terminal.show(
        await terminal.api.call<Discount>("POST", path, body),
        (one) => `${one.id}: ${one.percent} % off ${forText(one)} from ${one.effective_from}`,
      );
    });

  addEnd(discount.command("delete <id>").example("stoker admin discount delete DiscountOfAda000")).confirm(
    (_terminal, id: string) => `End the discount ${id} now?`,
  );
  // Its old name.
  addEnd(discount.command("end <id>", { hidden: true }));
}

const addEnd = (command: Command): Command =>
  command.description("end a discount now; billed amounts stay unchanged").run(async (terminal, id: string) => {
    await terminal.api.call("DELETE", `${path}/${encodeURIComponent(id)}`);
    terminal.show({ id }, () => `${id} ended`);
  });

function percentOf(text: string): number {
  if (!/^\d+(\.\d{1,2})?$/.test(text)) throw new InvalidArgumentError("Must be a percentage, such as 10 or 12.5.");
  return Number(text);
}

const forText = ({ uid, account_email: email, model, surface }: Discount): string =>
  [email ?? uid, model, surface].filter((one) => one !== null).join(", ") || "everything";
