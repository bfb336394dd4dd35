import { Code } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { text } from "../../text/deployments.ts";
import { Act } from "../../ui/act.tsx";
import { actionsColumn, DataTable } from "../../ui/data-table.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Section } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";

type Version = Responses["GET /deploy/{deploy_id}/versions"]["versions"][number];

const words = text.versions;

/** Arguments that a deployment has run with, and the return to them. */
export function Versions({ id }: { id: string }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const path = `/deploy/${encodeURIComponent(id)}`;
  const query = useGet<Responses["GET /deploy/{deploy_id}/versions"]>(`${path}/versions`);
  const rollBack = async ({ version }: Version) => {
    await api.call("POST", `${path}/rollback`, { version });
    await refresh("/deploy");
  };
  return (
    <Section title={words.title} about={words.about}>
      <Loaded query={query}>
        {({ versions }) => (
          <DataTable<Version>
            name={words.name}
            id="versions-"
            isShort
            rows={versions}
            keyOf={({ version }) => String(version)}
            empty={words.none}
            columns={[
              { name: words.version, value: ({ version }) => version },
              { name: words.state, value: stateOf },
              { name: words.created, value: (one) => one.created_at, show: (one) => <Ago at={one.created_at} /> },
              { name: words.args, value: argsOf, show: (one) => <Code>{argsOf(one) || words.none}</Code> },
              actionsColumn(
                (one: Version) =>
                  !one.is_desired && (
                    <Act
                      label={words.rollBack}
                      variant="light"
                      size="xs"
                      done={words.rolledBack(one.version)}
                      confirm={{ title: words.rollBackTitle(one.version), body: words.rollBackBody }}
                      command={`stoker deploy rollback ${id} --to ${one.version}`}
                      onAct={() => rollBack(one)}
                    />
                  ),
              ),
            ]}
          />
        )}
      </Loaded>
    </Section>
  );
}

const stateOf = ({ is_desired: isDesired, is_serving: isServing }: Version): string =>
  isDesired ? words.present : isServing ? words.serving : "";

const argsOf = ({ extra_args: args, standard_args: standard }: Version): string =>
  [...args, ...Object.entries(standard).map(([name, value]) => `${name}=${JSON.stringify(value)}`)].join(" ");
