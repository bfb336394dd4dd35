import type { Responses } from "../../proto/gen/responses.ts";
import { adminGroup, type Command } from "../command.ts";
import { counted } from "../counted.ts";
import { between } from "../option-values.ts";
import { utcTime } from "../terminal.ts";

type Quarantined = Page["records"][number];

type Page = Responses["GET /v1/admin/usage-quarantine"];

const path = "/v1/admin/usage-quarantine";

export function addAdminUsage(program: Command): void {
  const quarantine = adminGroup(program).command("quarantine").description("usage records that could not be verified");

  quarantine
    .command("list")
    .description("list records, oldest first (--json: complete, with counts per host)")
    .example("stoker admin quarantine list")
    .option("--node <id>", "only records of this host")
    .option("--limit <n>", "maximum number of records", between(1, 200), 50)
    .run(async (terminal, { node, limit }: { node?: string; limit: number }) => {
      const query = new URLSearchParams({ ...(node === undefined ? {} : { host_id: node }), limit: String(limit) });
      const page = await terminal.api.call<Page>("GET", `${path}?${query}`);
      if (terminal.isStructured) return terminal.show(page, String);
      terminal.rows(
        page.records,
        {
          ID: "id",
          HOST: "host_id",
          REQUEST: (one) => `${one.request_id}/${one.attempt}`,
          PROBLEM: "problem",
          AT: (one) => utcTime(one.at),
          REASON: "why",
        },
        { empty: "No records in quarantine." },
      );
    });

  for (const verb of ["release", "discard"] as const) {
    const command = quarantine
      .command(`${verb} <id>`)
      .example(`stoker admin quarantine ${verb} 12 --note checked`)
      .description(verb === "release" ? "bill a record by its ticket" : "discard a record")
      .requiredOption("--note <text>", "reason, recorded in the audit log");
    if (verb === "discard") command.confirm((_, id: string) => `Discard record ${id}? Its usage is never billed.`);
    command.run(async (terminal, id: string, { note }: { note: string }) => {
      terminal.show(
        await terminal.api.call<Quarantined>("POST", `${path}/${encodeURIComponent(id)}/${verb}`, { note }),
        (one) => `${one.id}: ${verb}d, request ${one.request_id}/${one.attempt} of ${one.host_id}`,
      );
    });
  }

  quarantine
    .command("discard-host <host>")
    .description("discard all records of a host")
    .example('stoker admin quarantine discard-host gpu-1 --note "a test host"')
    .confirm((_, host: string) => `Discard all records of ${host}? Their usage is never billed.`)
    .requiredOption("--note <text>", "reason, recorded in the audit log")
    .run(async (terminal, host: string, { note }: { note: string }) => {
      terminal.show(
        await terminal.api.call<{ discarded: number }>("POST", `${path}/discard`, { host_id: host, note }),
        ({ discarded }) => `${counted(discarded, "record")} of ${host} discarded`,
      );
    });
}
