import type { Command } from "commander";
import { CliError, exitCode } from "../cli-error.ts";
import { openTerminal } from "../terminal.ts";
import { dayDimensions, showUsageDays } from "./usage-log.ts";

interface Account {
  readonly uid: string;
  readonly email: string | null;
  readonly display_name: string;
  readonly is_admin: boolean;
}

interface Usage {
  readonly months: readonly {
    readonly period: string;
    /** Cents. */
    readonly total_cost: number;
    readonly items: readonly {
      readonly model: { readonly model_name: string };
      readonly pricing_type: string;
      readonly units: number;
      readonly cost: number;
    }[];
  }[];
}

interface Checklist {
  /** USD; negative is funds ready to spend. */
  readonly payments_balance: number;
  readonly recent: number;
}

export function addAccountCommands(program: Command): void {
  program
    .command("me")
    .description("the account behind the key")
    .action(async (_flags: object, command: Command) => {
      const terminal = openTerminal(command);
      terminal.show(
        await terminal.api.call<Account>("GET", "/v1/me"),
        ({ uid, email, display_name: name, is_admin: isAdmin }) =>
          `${name} (${uid})${email === null ? "" : ` ${email}`}${isAdmin ? ", operator" : ""}`,
      );
    });
  program
    .command("usage")
    .description("what this key used, by model and month, in USD; or what the account used each day")
    .option(
      "--by <what>",
      "model, by month; or of the whole account by day: day (by model), key, jwt with a limit",
      "model",
    )
    .option("--from <month>", "YYYY.MM, current, or current-1; of days YYYY-MM-DD, by default the last 30", "current")
    .option("--to <month>", "the same")
    .option("--csv", "for a spreadsheet")
    .action(async (flags: { by: string; from: string; to?: string; csv?: boolean }, command: Command) => {
      const terminal = openTerminal(command);
      const by = dayDimensions[flags.by];
      if (by !== undefined) {
        const from = command.getOptionValueSource("from") === "default" ? undefined : flags.from;
        return showUsageDays(terminal, by, { ...flags, from });
      }
      if (flags.by !== "model" && flags.by !== "month")
        throw new CliError("Give --by model, day, key or jwt.", exitCode.wrongUsage);
      const query = new URLSearchParams(
        flags.to === undefined ? { from: flags.from } : { from: flags.from, to: flags.to },
      );
      const path = `/payment/usage/${encodeURIComponent(terminal.connection.key())}?${query}`;
      const usage = await terminal.api.call<Usage>("GET", path);
      if (terminal.json) return terminal.show(usage, String);
      const lines = usage.months.flatMap((month) => month.items.map((item) => ({ ...item, period: month.period })));
      terminal[flags.csv ? "csv" : "rows"](lines, ["MONTH", "MODEL", "TYPE", "UNITS", "USD"], (item) => [
        item.period,
        item.model.model_name,
        item.pricing_type,
        String(item.units),
        (item.cost / 100).toFixed(6),
      ]);
    });
  program
    .command("balance")
    .description("what is left to spend, in USD")
    .action(async (_flags: object, command: Command) => {
      const terminal = openTerminal(command);
      terminal.show(await terminal.api.call<Checklist>("GET", "/payment/checklist"), (checklist) =>
        (-checklist.payments_balance - checklist.recent).toFixed(2),
      );
    });
}
