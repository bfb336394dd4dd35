// `stoker admin provider`: external servers, what their providers cost and may cost.
import type { Responses } from "../../proto/gen/responses.ts";
import { adminGroup, type Command } from "../command.ts";
import { price } from "../option-values.ts";
import { ratesText } from "../table.ts";

type Server = Responses["GET /v1/admin/external"]["servers"][number];

interface SetFlags {
  readonly input?: number;
  readonly cachedInput?: number;
  readonly output?: number;
  readonly request?: number;
  readonly monthlyLimit?: number;
  readonly dailyLimit?: number;
}

const path = "/v1/admin/external";

const spendingText = ({ spent, limit }: Server["month"]): string =>
  limit === null ? String(spent) : `${spent} of ${limit}`;

export function addAdminProvider(program: Command): void {
  const provider = adminGroup(program)
    .command("provider")
    .description("external servers of upstream providers: costs and spending limits");

  provider
    .command("list")
    .description("list external servers with costs (USD per million tokens, per request) and spending in USD (UTC)")
    .example("stoker admin provider list")
    .run(async (terminal) => {
      const { servers } = await terminal.api.call<{ servers: Server[] }>("GET", path);
      terminal.rows(
        servers,
        {
          ID: "deploy_id",
          MODEL: "model_name",
          STATUS: "status",
          HEALTH: ({ health }) => (health.state === "closed" ? "ok" : `${health.state}: ${health.reason}`),
          COSTS: ({ costs }) => ratesText(costs),
          MONTH: ({ month }) => spendingText(month),
        },
        { wide: { FORMAT: "format", DAY: ({ day }) => spendingText(day), URL: "url" } },
      );
    });

  provider
    .command("update <deploy-id>")
    .alias("set")
    .description("set what a provider costs and may cost; omitted costs are 0, omitted limits are removed")
    .example("stoker admin provider update DpM4BkrjEspUwmTa --input 0.5 --output 1")
    .option("--input <usd>", "per million prompt tokens", price(1e6))
    .option("--cached-input <usd>", "per million cached prompt tokens (default: as --input)", price(1e6))
    .option("--output <usd>", "per million generated tokens", price(1e6))
    .option("--request <usd>", "per request", price(1e3))
    .option("--monthly-limit <usd>", "maximum per calendar month, UTC", price(1e9))
    .option("--daily-limit <usd>", "maximum per day, UTC", price(1e9))
    .run(async (terminal, id: string, { monthlyLimit, dailyLimit, cachedInput, ...costs }: SetFlags) => {
      const body = {
        costs: { ...costs, cached_input: cachedInput },
        monthly_limit: monthlyLimit ?? null,
        daily_limit: dailyLimit ?? null,
      };
      terminal.show(
        await terminal.api.call<Server>("PUT", `${path}/${encodeURIComponent(id)}`, body),
        (one) => `${one.model_name}: ${ratesText(one.costs)}; ${spendingText(one.month)} this month`,
      );
    });
}
