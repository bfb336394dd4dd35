import type { Responses } from "../../proto/gen/responses.ts";
import { adminGroup, type Command } from "../command.ts";
import { utcTime } from "../terminal.ts";

type Restore = Responses["GET /v1/admin/restores"]["restores"][number];

type Report = NonNullable<Restore["report"]>;

export function addAdminRestores(program: Command): void {
  adminGroup(program)
    .command("restores")
    .description("list restores of the database: hosts that still have to resend usage, and recovered records")
    .example("stoker admin restores")
    .run(async (terminal) => {
      const { restores } = await terminal.api.call<{ restores: readonly Restore[] }>("GET", "/v1/admin/restores");
      terminal.show(restores, (all) => (all.length === 0 ? "None." : all.map(described).join("\n")));
    });
}

function described(one: Restore): string {
  return [`${utcTime(one.began_at)}  ${one.cause}`, ...(one.report ? reported(one, one.report) : pending(one))].join(
    "\n  ",
  );
}

const pending = ({ awaited_hosts: hosts, ends_by: end }: Restore): readonly string[] => [
  "reconciliation pending; agents resend their kept usage records",
  `waiting until ${utcTime(end)}: ${hosts.map(({ node_id: id, name }) => `${name} (${id})`).join(", ") || "no hosts"}`,
];

const reported = ({ ended_at: end }: Restore, report: Report): readonly string[] => [
  `ended ${end === null ? "" : utcTime(end)}`,
  `recovered ${report.recovered_records} of ${report.resent_records} resent records, USD ${report.recovered_usd.toFixed(6)}`,
  `lost at most ${report.lost_records_at_most} records; hosts that did not finish: ${report.missing_node_ids.join(", ") || "none"}`,
];
