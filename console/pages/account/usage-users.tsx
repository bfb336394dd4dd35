// Usage by end user, summed by the server: an account may have ten thousand of them in a month.
import { Group, Stack, Text } from "@mantine/core";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { type Query, useGet, useRefresh } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { type Days, type Line, linesOf, type Metric, totalsOf } from "../../domain/usage.ts";
import { text } from "../../text/usage.ts";
import { Act } from "../../ui/act.tsx";
import { count } from "../../ui/format.ts";
import { Download } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { UsageChart, UsageStats } from "./usage-chart.tsx";
import { UsageTable } from "./usage-table.tsx";

type Users = Responses["GET /v1/usage/users"];

const path = "/v1/usage/users";
const maxListed = 2000;

interface UsageByUserProps {
  /** First day. */
  readonly from: string;
  readonly metric: Metric;
  readonly model: string;
  readonly apiKey: string;
  /** Days of all requests, for the chart while no end user is chosen. */
  readonly all: Query<Days>;
}

export function UsageByUser({ from, metric, model, apiKey, all }: UsageByUserProps): ReactNode {
  const [user, setUser] = useFilter("user");
  const filter = Object.entries({ from, model, key: apiKey }).filter(([, value]) => value !== "");
  const query = new URLSearchParams([...filter, ["order", "cost"], ["limit", `${maxListed}`]]);
  const users = useGet<Users>(`${path}?${query}`, { everyMs: 60_000 });
  return (
    <Stack gap="md">
      <Group gap="sm" justify="space-between">
        <Text size="sm" c="dimmed" maw={720}>
          {text.users.about}
        </Text>
        <Download
          href={`${path}?${new URLSearchParams([...filter, ["by", "day"], ["limit", "10000"], ["format", "csv"]])}`}
          name="end-users.csv"
          label={text.users.csv}
        />
      </Group>
      {user === "" ? (
        <Loaded query={all}>
          {(days) => (
            <UsageChart
              days={days.days.map(({ day }) => day)}
              lines={linesOf(days, "model", { model, key: apiKey })}
              metric={metric}
              title={text.chart(text.metrics[metric === "cost" ? "" : metric], text.model)}
            />
          )}
        </Loaded>
      ) : (
        <OneUser user={user} filter={filter} metric={metric} days={all.data?.days.map(({ day }) => day) ?? []} />
      )}
      <Loaded query={users}>
        {({ users: found }) => (
          <>
            {found.length >= maxListed && (
              <Text size="sm" c="dimmed">
                {text.users.most(count(maxListed))}
              </Text>
            )}
            <UsageTable
              lines={[]}
              totals={totalsOf(found.map(lineOf))}
              name={text.user}
              link={({ id }) => ({ user: id })}
              onChoose={setUser}
              more={(line) => line.id !== "" && <Erase name={line.id} />}
              empty={text.users.empty}
            />
          </>
        )}
      </Loaded>
    </Stack>
  );
}

interface OneUserProps {
  readonly user: string;
  readonly filter: readonly (readonly [string, string])[];
  readonly metric: Metric;
  readonly days: readonly string[];
}

function OneUser({ user, filter, metric, days }: OneUserProps): ReactNode {
  const query = new URLSearchParams([...filter.map(([...pair]) => pair), ["user", user], ["by", "day"]]);
  const use = useGet<Users>(`${path}?${query}`);
  return (
    <Loaded query={use}>
      {({ users }) => {
        const lines = users.map(lineOf);
        return (
          <>
            <UsageStats lines={lines} />
            <UsageChart
              days={days}
              lines={lines}
              metric={metric}
              title={text.chartOf(text.metrics[metric === "cost" ? "" : metric], user)}
            />
          </>
        );
      }}
    </Loaded>
  );
}

const lineOf = (one: Users["users"][number]): Line => ({
  day: one.period,
  id: one.user ?? "",
  name: one.user ?? text.noUser,
  limit: null,
  requests: one.requests,
  input: one.input_tokens,
  output: one.output_tokens,
  cost: one.cost / 100,
});

function Erase({ name }: { name: string }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  return (
    <Act
      label={text.users.erase}
      color="red"
      variant="light"
      command={`stoker usage erase-user ${JSON.stringify(name)}`}
      done={text.users.erased}
      confirm={{ title: text.users.eraseTitle(name), body: text.users.eraseBody }}
      onAct={async () => {
        await api.call("DELETE", `${path}?${new URLSearchParams({ user: name })}`);
        await refresh(path, "/v1/requests");
      }}
    />
  );
}
