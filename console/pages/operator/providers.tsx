// External servers: health, what their providers cost, and the most they may cost.
import { NumberInput, Progress, Select, SimpleGrid, Stack, Text, TextInput } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { serverApis } from "../../../proto/api-formats.ts";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { text } from "../../text/operator-providers.ts";
import { Command } from "../../ui/code.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { type Fields, Form } from "../../ui/form.tsx";
import { duration, usd } from "../../ui/format.ts";
import { Link } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";

const path = "/v1/admin/external";

type Servers = Responses["GET /v1/admin/external"];
type Server = Servers["servers"][number];
type Unit = keyof Server["costs"];

const units = Object.keys(text.units) as Unit[];
const tasks = [
  "text-generation",
  "embeddings",
  "reranker",
  "automatic-speech-recognition",
  "text-to-speech",
  "text-to-image",
];

export function Providers(): ReactNode {
  const servers = useGet<Servers>(path, { everyMs: 15_000 });
  return (
    <Page title={text.title} about={text.about} actions={<AddServer />}>
      <Loaded query={servers}>
        {({ servers: rows, has_more: hasMore }) => (
          <>
            <DataTable
              name="servers"
              rows={rows}
              columns={columns}
              keyOf={({ deploy_id: id }) => id}
              empty={text.empty}
            />
            {hasMore && (
              <Text size="sm" c="dimmed">
                {text.hasMore}
              </Text>
            )}
          </>
        )}
      </Loaded>
    </Page>
  );
}

function healthText({ health: { state, reason, seconds_left: seconds } }: Server): string {
  if (state === "closed") return text.healthy;
  const why = text.reasons[reason ?? ""] ?? reason ?? "";
  return state === "open" ? text.paused(why, duration(seconds * 1000)) : text.trying(why);
}

const costsText = ({ costs }: Server): string =>
  units
    .filter((unit) => costs[unit] > 0)
    .map((unit) => text.rate(usd(costs[unit]), text.units[unit]))
    .join(", ") || text.free;

const columns: readonly Column<Server>[] = [
  {
    name: text.model,
    value: ({ model_name: name }) => name,
    show: ({ deploy_id: id, model_name: name, url }) => (
      <>
        <Link to={`/all-deployments/${encodeURIComponent(id)}`} fw={600} inherit>
          {name}
        </Link>
        <Text size="xs" c="dimmed" className="verbatim">
          {url}
        </Text>
      </>
    ),
  },
  { name: text.status, value: ({ status }) => status, show: ({ status }) => <Status of={status} /> },
  {
    name: text.health,
    value: healthText,
    show: (one) => (
      <Text size="sm" maw={240} {...(one.health.state === "closed" ? {} : { c: "red" })}>
        {one.health.state === "closed" ? "●" : "▲"} {healthText(one)}
      </Text>
    ),
  },
  {
    name: text.costs,
    value: costsText,
    show: (one) => (
      <Text size="sm" maw={320}>
        {costsText(one)}
      </Text>
    ),
  },
  { name: text.month, value: ({ month }) => month.spent, show: ({ month }) => <Spending of={month} /> },
  { name: text.day, value: ({ day }) => day.spent, show: ({ day }) => <Spending of={day} /> },
  actionsColumn<Server>((one) => <SetTerms one={one} />),
];

function Spending({ of: { spent, limit } }: { of: Server["month"] }): ReactNode {
  if (limit === null) return usd(spent);
  const share = limit === 0 ? 100 : Math.min(100, (100 * spent) / limit);
  const label = text.spent(usd(spent), usd(limit));
  return (
    <Stack gap={2} miw={110}>
      <span>{label}</span>
      <Progress value={share} color={share >= 100 ? "red" : share >= 80 ? "yellow" : "green"} aria-label={label} />
    </Stack>
  );
}

function SetTerms({ one }: { one: Server }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  return (
    <Dialog label={text.set} title={text.setTitle(one.model_name)}>
      {(close) => (
        <Form
          act={text.save}
          done={text.saved}
          onSend={async (fields) => {
            await api.call("PUT", `${path}/${encodeURIComponent(one.deploy_id)}`, termsIn(fields));
            await refresh(path);
            close();
          }}
        >
          <Text size="sm">{text.setAbout}</Text>
          <TermFields of={one} />
          <Command value={`stoker admin provider update ${one.deploy_id} --monthly-limit USD`} />
        </Form>
      )}
    </Dialog>
  );
}

function TermFields({ of }: { of?: Server }): ReactNode {
  return (
    <SimpleGrid cols={{ base: 1, sm: 2 }}>
      {units.map((unit) => (
        <NumberInput
          key={unit}
          label={text.costField(text.units[unit])}
          name={unit}
          min={0}
          decimalScale={9}
          {...(of ? { defaultValue: of.costs[unit] } : {})}
        />
      ))}
      <NumberInput
        label={text.monthly}
        name="month"
        min={0}
        decimalScale={2}
        {...(of?.month.limit == null ? {} : { defaultValue: of.month.limit })}
      />
      <NumberInput
        label={text.daily}
        name="day"
        min={0}
        decimalScale={2}
        {...(of?.day.limit == null ? {} : { defaultValue: of.day.limit })}
      />
    </SimpleGrid>
  );
}

function termsIn(fields: Fields) {
  const given = units.filter((unit) => (fields[unit] ?? "") !== "");
  const limit = (typed: string | undefined) => (typed === undefined || typed === "" ? null : Number(typed));
  return {
    ...(given.length > 0 ? { costs: Object.fromEntries(given.map((unit) => [unit, Number(fields[unit])])) } : {}),
    monthly_limit: limit(fields["month"]),
    daily_limit: limit(fields["day"]),
  };
}

function AddServer(): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const add = async (fields: Fields) => {
    const orNull = (name: string) => fields[name]?.trim() || null;
    const numberOf = (name: string) => (fields[name] ? { [name]: Number(fields[name]) } : {});
    await api.call("POST", path, {
      name: fields["name"]?.trim(),
      url: fields["url"]?.trim(),
      format: fields["format"],
      task: fields["task"],
      served_name: orNull("served_name"),
      host_id: orNull("host_id"),
      api_key: orNull("api_key"),
      ...numberOf("context_length"),
      ...numberOf("max_batch_size"),
      ...termsIn(fields),
    });
    await refresh(path);
  };
  return (
    <Dialog label={text.add} variant="filled" leftSection={<IconPlus size={16} />} width="xl">
      {(close) => (
        <Form
          act={text.submit}
          done={text.added}
          onSend={async (fields) => {
            await add(fields);
            close();
          }}
        >
          <Text size="sm">{text.addAbout}</Text>
          <SimpleGrid cols={{ base: 1, sm: 2 }}>
            <TextInput label={text.name} name="name" maxLength={225} required data-autofocus />
            <TextInput label={text.address} name="url" type="url" maxLength={2048} placeholder="https://" required />
            <Select
              label={text.format}
              name="format"
              data={serverApis.map((value) => ({ value, label: text.formats[value] ?? value }))}
              defaultValue="openai"
              allowDeselect={false}
            />
            <Select label={text.task} name="task" data={tasks} defaultValue="text-generation" allowDeselect={false} />
            <TextInput label={text.served} description={text.servedHint} name="served_name" maxLength={256} />
            <TextInput label={text.host} description={text.hostHint} name="host_id" maxLength={64} />
            <TextInput
              label={text.key}
              description={text.keyHint}
              name="api_key"
              type="password"
              autoComplete="off"
              maxLength={4096}
            />
            <NumberInput label={text.context} description=" " name="context_length" min={1} />
            <NumberInput label={text.concurrency} name="max_batch_size" min={1} placeholder="96" />
          </SimpleGrid>
          <TermFields />
        </Form>
      )}
    </Dialog>
  );
}
