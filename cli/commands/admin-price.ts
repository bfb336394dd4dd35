import type { Responses } from "../../proto/gen/responses.ts";
import { adminGroup, type Command } from "../command.ts";
import { price as priceOption } from "../option-values.ts";
import { ratesText } from "../table.ts";
import { utcMinute } from "../terminal.ts";

type Price = Responses["POST /v1/admin/prices"];

const path = "/v1/admin/prices";

export function addAdminPrice(program: Command): void {
  const price = adminGroup(program).command("price").description("the price book");

  price
    .command("list")
    .description("list all price versions in USD (per million tokens or characters, per 1000 seconds of audio)")
    .example("stoker admin price list")
    .option("--kind <kind>", "model, gpu or container")
    .option("--subject <name>", "only this model, GPU type or plan")
    .run(async (terminal, flags: Record<string, string>) => {
      const { prices } = await terminal.api.call<{ prices: Price[] }>("GET", `${path}?${new URLSearchParams(flags)}`);
      terminal.rows(prices, {
        KIND: "kind",
        SUBJECT: "subject",
        FROM: (one) => utcMinute(one.effective_from),
        NOW: (one) => (one.current ? "yes" : ""),
        RATES: (one) => ratesText(one.rates),
      });
    });

  price
    .command("create <kind> <subject>")
    .alias("set")
    .description("create a price version for a model, gpu or container; omitted rates are 0")
    .example("stoker admin price create model org/model --input 0.2 --output 0.6")
    .option("--input <usd>", "per million tokens", priceOption(1e6))
    .option("--cached-input <usd>", "per million tokens (default: as --input)", priceOption(1e6))
    .option("--output <usd>", "per million tokens", priceOption(1e6))
    .option("--characters <usd>", "per million characters", priceOption(1e6))
    .option("--audio <usd>", "per 1000 seconds", priceOption(1e6))
    .option("--image <usd>", "per image", priceOption(1e3))
    .option("--hour <usd>", "per hour of a GPU or container", priceOption(1e6))
    .option("--from <time>", "start, Unix seconds or ISO 8601 (default: now)")
    .option("--note <text>", "reason, recorded in the audit log")
    .run(
      async (
        terminal,
        kind: string,
        subject: string,
        { from, note, cachedInput, ...rates }: Record<string, number> & { from?: never; note?: never },
      ) => {
        const body = {
          kind,
          subject,
          rates: { ...rates, cached_input: cachedInput },
          effective_from: from ?? null,
          note,
        };
        terminal.show(
          await terminal.api.call<Price>("POST", path, body),
          (one) => `${one.kind} ${one.subject} from ${one.effective_from}: ${ratesText(one.rates)}`,
        );
      },
    );
}
