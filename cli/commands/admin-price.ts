import type { Command } from "commander";
import { adminGroup } from "../admin-group.ts";
import { money } from "../option-values.ts";
import { openTerminal } from "../terminal.ts";

type Rates = Readonly<Record<string, number>>;

interface Price {
  readonly kind: string;
  readonly subject: string;
  readonly rates: Rates;
  readonly effective_from: string;
  readonly current: boolean;
}

const path = "/v1/admin/prices";
const rateText = (rates: Rates): string =>
  Object.entries(rates)
    .filter(([, usd]) => usd > 0)
    .map(([name, usd]) => `${name} ${usd}`)
    .join(", ") || "free";

export function addAdminPrice(program: Command): void {
  const price = adminGroup(program).command("price").description("the price book");

  price
    .command("list")
    .description("every version, in USD (tokens and characters by the million, audio by 1000 s)")
    .option("--kind <kind>", "model, gpu or container")
    .option("--subject <name>", "one model, GPU type or plan")
    .action(async (flags: Record<string, string>, command: Command) => {
      const terminal = openTerminal(command);
      const { prices } = await terminal.api.call<{ prices: Price[] }>("GET", `${path}?${new URLSearchParams(flags)}`);
      terminal.rows(prices, ["KIND", "SUBJECT", "FROM", "NOW", "RATES"], (one) => [
        one.kind,
        one.subject,
        one.effective_from.slice(0, 16),
        one.current ? "yes" : "",
        rateText(one.rates),
      ]);
    });

  price
    .command("set <kind> <subject>")
    .description("a new version, for a model, gpu or container; rates that are left out are 0")
    .option("--input <usd>", "per million tokens", money)
    .option("--cached-input <usd>", "per million tokens; without it as --input", money)
    .option("--output <usd>", "per million tokens", money)
    .option("--characters <usd>", "per million", money)
    .option("--audio <usd>", "per 1000 seconds", money)
    .option("--image <usd>", "per image", money)
    .option("--hour <usd>", "of one GPU or container", money)
    .option("--from <time>", "unix seconds, or ISO 8601; without it now")
    .option("--note <text>", "why; kept in the audit log")
    .action(
      async (
        kind: string,
        subject: string,
        { from, note, cachedInput, ...rates }: Record<string, number> & { from?: never; note?: never },
        command: Command,
      ) => {
        const terminal = openTerminal(command);
        const body = {
          kind,
          subject,
          rates: { ...rates, ...(cachedInput === undefined ? {} : { cached_input: cachedInput }) },
          effective_from: from ?? null,
          ...(note === undefined ? {} : { note }),
        };
        terminal.show(
          await terminal.api.call<Price>("POST", path, body),
          (one) => `${one.kind} ${one.subject} from ${one.effective_from}: ${rateText(one.rates)}`,
        );
      },
    );
}
