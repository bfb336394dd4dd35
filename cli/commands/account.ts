import type { Responses } from "../../proto/gen/responses.ts";
import { CliError, exitCode } from "../cli-error.ts";
import type { Command } from "../command.ts";

import { addUsageUsers, dayDimensions, showUsageDays } from "./usage-log.ts";

type Account = Responses["GET /v1/me"];

type Usage = Responses["GET /payment/usage/{api_token}"];

type Checklist = Responses["GET /payment/checklist"];

export function addAccountCommands(program: Command): void {
  program
    .command("me")
    .description("show the account of the API key")
    .example("stoker me")
    .run(async (terminal) => {
      terminal.show(
        await terminal.api.call<Account>("GET", "/v1/me"),
        ({ uid, email, display_name: name, is_admin: isAdmin }) =>
          `${name} (${uid})${email === null ? "" : ` ${email}`}${isAdmin ? ", operator" : ""}`,
      );
    });
  const usage = program
    .command("usage")
    .description("usage of this key by model and month, or usage of the account by day, in USD")
    .example("stoker usage --by day --csv")
    .option(
      "--by <what>",
      "model (by month), or for the whole account by day: day (by model), key, jwt (tokens with a limit), user (end users)",
      "model",
    )
    .option(
      "--from <month>",
      "YYYY.MM, current or current-1; with daily usage YYYY-MM-DD (default: the last 30 days)",
      "current",
    )
    .option("--to <month>", "end, in the same format")
    .option("--csv", "print CSV")
    .run(async (terminal, flags: { by: string; from: string; to?: string; csv?: boolean }, command: Command) => {
      const by = dayDimensions[flags.by];
      if (by !== undefined) {
        const from = command.getOptionValueSource("from") === "default" ? undefined : flags.from;
        return showUsageDays(terminal, by, { ...flags, from });
      }
      if (flags.by !== "model" && flags.by !== "month")
        throw new CliError("--by must be model, day, key, jwt or user.", exitCode.wrongUsage);
      const query = new URLSearchParams(
        flags.to === undefined ? { from: flags.from } : { from: flags.from, to: flags.to },
      );
      const path = `/payment/usage/${encodeURIComponent(terminal.connection.key())}?${query}`;
      const found = await terminal.api.call<Usage>("GET", path);
      if (terminal.isStructured) return terminal.show(found, String);
      const lines = found.months.flatMap((month) => month.items.map((item) => ({ ...item, period: month.period })));
      terminal[flags.csv ? "csv" : "rows"](
        lines,
        {
          MONTH: "period",
          MODEL: (item) => item.model.model_name,
          TYPE: "pricing_type",
          UNITS: "units",
          USD: (item) => (item.cost / 100).toFixed(9),
        },
        { empty: "No usage in this period. Other months: --from YYYY.MM" },
      );
    });
  addUsageUsers(usage);
  program
    .command("balance")
    .description("remaining funds in USD")
    .example("stoker balance")
    .run(async (terminal) => {
      terminal.show(await terminal.api.call<Checklist>("GET", "/payment/checklist"), (checklist) =>
        (-checklist.payments_balance - checklist.recent).toFixed(2),
      );
    });
}
