import { type Command, InvalidArgumentError } from "commander";
import { uidOf } from "../account-uid.ts";
import { adminGroup } from "../admin-group.ts";
import { openTerminal } from "../terminal.ts";

interface Discount {
  readonly id: string;
  readonly name: string;
  readonly percent: number;
  readonly uid: string | null;
  readonly model: string | null;
  readonly surface: string | null;
  readonly effective_from: string;
  readonly effective_to: string | null;
}

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
  const discount = adminGroup(program).command("discount").description("so many per cent off, shown on bills");

  discount
    .command("list")
    .description("discounts, newest first, ended ones included")
    .action(async (_flags: object, command: Command) => {
      const terminal = openTerminal(command);
      const { discounts } = await terminal.api.call<{ discounts: Discount[] }>("GET", path);
      terminal.rows(discounts, ["ID", "PERCENT", "FOR", "FROM", "TO", "NAME"], (one) => [
        one.id,
        String(one.percent),
        forText(one),
        one.effective_from.slice(0, 16),
        one.effective_to?.slice(0, 16) ?? "",
        one.name,
      ]);
    });

  discount
    .command("give <percent>")
    .description("give one; without account, model and surface it is everybody's for everything")
    .requiredOption("--name <name>", "shown on bills")
    .option("--text <text>", "shown on bills")
    .option("--account <account>", "uid, e-mail address or display name")
    .option("--model <name>", "public name of one model")
    .option("--surface <surface>", "such as chat, text_completion, or gpu for the time of deployments")
    .option("--from <time>", "unix seconds, or ISO 8601; without it now")
    .option("--to <time>", "the same; without it, it is open")
    .option("--note <text>", "why; kept in the audit log")
    .action(async (percent: string, flags: GiveFlags, command: Command) => {
      const terminal = openTerminal(command);
      const { name, text, account, model, surface, from, to, note } = flags;
      const body = {
        ...{ percent: percentOf(percent), name, text, model, surface, note },
        ...(account === undefined ? {} : { uid: await uidOf(terminal.api, account) }),
        ...{ effective_from: from, effective_to: to },
      };
      terminal.show(
        await terminal.api.call<Discount>("POST", path, body),
        (one) => `${one.id}: ${one.percent} % off ${forText(one)} from ${one.effective_from}`,
      );
    });

  discount
    .command("end <id>")
    .description("end one now; what was billed with it stays")
    .action(async (id: string, _flags: object, command: Command) => {
      const terminal = openTerminal(command);
      await terminal.api.call("DELETE", `${path}/${encodeURIComponent(id)}`);
      terminal.show({ id }, () => `${id} has ended`);
    });
}

function percentOf(text: string): number {
  if (!/^\d+(\.\d{1,2})?$/.test(text)) throw new InvalidArgumentError("Give per cent, such as 10 or 12.5.");
  return Number(text);
}

const forText = ({ uid, model, surface }: Discount): string =>
  [uid ?? "everybody", model ?? "every model", surface ?? "every surface"].join(", ");
