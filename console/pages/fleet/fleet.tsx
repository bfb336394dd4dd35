// Start of the operator's day: hosts that need attention, free capacity, and every GPU on one screen.
import { Alert, Box, Button, Card, Group, Progress, Select, Stack, Text } from "@mantine/core";
import { IconAlertTriangle, IconPlus } from "@tabler/icons-react";
import { type ReactNode, useMemo } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import {
  type CustomerMark,
  customersOf,
  type FleetFilter,
  filtered,
  freeCapacity,
  gpuStates,
  isShade,
  pathOfNode,
  type Shade,
  statusOf,
  totalsOf,
} from "../../domain/fleet.ts";
import { gpuTypeOf, issuesOf, type Node } from "../../domain/nodes.ts";
import { text } from "../../text/fleet.ts";
import { Choice } from "../../ui/choice.tsx";
import { count } from "../../ui/format.ts";
import { Link, LinkButton } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Empty, Page, Section, Stats } from "../../ui/page.tsx";
import { HeatMap } from "./heat-map.tsx";
import { HostTable } from "./host-table.tsx";

type Nodes = Responses["GET /v1/admin/nodes"];

export function FleetPage(): ReactNode {
  const fleet = useGet<Nodes>("/v1/admin/nodes", { everyMs: 5000 });
  const add = (
    <LinkButton to="/enrolment" leftSection={<IconPlus size={16} />}>
      {text.addHost}
    </LinkButton>
  );
  return (
    <Page title={text.title} about={text.about} actions={add}>
      <Loaded query={fleet}>
        {({ nodes }) => (nodes.length === 0 ? <Empty action={add}>{text.empty}</Empty> : <Content nodes={nodes} />)}
      </Loaded>
    </Page>
  );
}

function Content({ nodes }: { nodes: readonly Node[] }): ReactNode {
  const [view, setView] = useFilter("view");
  const [filter, filters] = useFleetFilter(nodes);
  const shown = useMemo(() => filtered(nodes, filter), [nodes, filter]);
  return (
    <Stack gap="md">
      <Attention nodes={nodes} />
      <Totals nodes={nodes} />
      <Capacity nodes={nodes} />
      <Section>
        <Group gap="sm" mb="sm" align="flex-end">
          <Choice
            label={text.view}
            options={text.views}
            value={view === "hosts" ? "hosts" : "gpus"}
            onChange={(value) => setView(value === "hosts" ? "hosts" : "")}
          />
          {filters}
        </Group>
        {view === "hosts" ? <HostTable nodes={shown.map(({ node }) => node)} /> : <Gpus nodes={nodes} shown={shown} />}
      </Section>
    </Stack>
  );
}

/** The filter in the address, and its inputs. */
function useFleetFilter(nodes: readonly Node[]): readonly [FleetFilter, ReactNode] {
  const [type, setType] = useFilter("type");
  const [pool, setPool] = useFilter("pool");
  const [status, setStatus] = useFilter("status");
  const [health, setHealth] = useFilter("health");
  const [customer, setCustomer] = useFilter("customer");
  const filter = useMemo(() => ({ type, pool, status, health, customer }), [type, pool, status, health, customer]);
  const known = useMemo(
    () => ({
      types: distinct(
        nodes.flatMap(({ gpus }) => gpus.map(gpuTypeOf)),
        type,
      ),
      pools: distinct(
        nodes.map((node) => node.pool),
        pool,
      ),
      statuses: distinct(nodes.map(statusOf), status),
    }),
    [nodes, type, pool, status],
  );
  const customers = useMemo(() => {
    const own = customersOf(nodes).map(({ uid, email }) => ({ value: uid, label: email }));
    return customer === "" || own.some(({ value }) => value === customer)
      ? own
      : [...own, { value: customer, label: customer }];
  }, [nodes, customer]);
  const words = text.filter;
  const states = gpuStates.map((state) => ({ value: state, label: words.states[state] }));
  const inputs = (
    <>
      <Filter label={words.type} data={known.types} value={type} onChange={setType} />
      {known.pools.length > 0 && <Filter label={words.pool} data={known.pools} value={pool} onChange={setPool} />}
      <Filter label={words.status} data={known.statuses} value={status} onChange={setStatus} />
      <Filter label={words.health} data={states} value={health} onChange={setHealth} />
      {customers.length > 0 && (
        <Filter label={words.customer} data={customers} value={customer} onChange={setCustomer} isSearchable />
      )}
    </>
  );
  return [filter, inputs];
}

/** A value that no host has any more stays, so that it can be removed. */
const distinct = (values: readonly string[], chosen: string): string[] =>
  [...new Set([...values, chosen])].filter((value) => value !== "").sort();

interface FilterProps {
  readonly label: string;
  readonly data: (string | { readonly value: string; readonly label: string })[];
  readonly value: string;
  readonly onChange: (value: string) => void;
  readonly isSearchable?: boolean;
}

function Filter({ label, data, value, onChange, isSearchable = false }: FilterProps): ReactNode {
  return (
    <Select
      size="xs"
      w={150}
      label={label}
      placeholder={text.filter.all}
      data={data}
      value={value === "" ? null : value}
      clearable
      searchable={isSearchable}
      onChange={(chosen) => onChange(chosen ?? "")}
    />
  );
}

function Gpus({ nodes, shown }: { nodes: readonly Node[]; shown: ReturnType<typeof filtered> }): ReactNode {
  const [wanted, setShade] = useFilter("by");
  const shade = isShade(wanted) ? wanted : "use";
  const customers = useMemo(() => customersOf(nodes), [nodes]);
  const marks = useMemo(() => new Map(customers.map((one) => [one.uid, one])), [customers]);
  const all = nodes.reduce((sum, { gpus }) => sum + gpus.length, 0);
  const some = shown.reduce((sum, { gpus }) => sum + gpus.length, 0);
  return (
    <>
      <Group gap="sm" mb="sm">
        <Text size="xs" c="dimmed">
          {text.filter.shade}
        </Text>
        <Choice
          label={text.filter.shade}
          options={text.filter.shades}
          value={shade}
          onChange={(value) => setShade(value === "use" ? "" : value)}
        />
        <Text size="xs" c="dimmed" role="status">
          {text.filter.shown(some, all)}
        </Text>
        <Legend shade={shade} customers={customers} />
      </Group>
      {some === 0 ? <Empty>{text.filter.none}</Empty> : <HeatMap hosts={shown} shade={shade} customers={marks} />}
    </>
  );
}

const maxLegend = 8;

function Legend({ shade, customers }: { shade: Shade; customers: readonly CustomerMark[] }): ReactNode {
  return (
    <Group gap={10} ml="auto" role="list" aria-label={text.map.legend}>
      {legendOf(shade, customers).map(({ tone, sign, label }) => (
        <Group key={label} gap={4} wrap="nowrap" role="listitem">
          <span className="swatch" data-tone={tone} aria-hidden="true">
            {sign}
          </span>
          <Text size="xs">{label}</Text>
        </Group>
      ))}
    </Group>
  );
}

interface LegendEntry {
  readonly tone: string;
  readonly sign: string;
  readonly label: string;
}

function legendOf(shade: Shade, customers: readonly CustomerMark[]): readonly LegendEntry[] {
  const words = text.map;
  if (shade === "health")
    return [
      { tone: "used", sign: "●", label: text.filter.states.used },
      { tone: "free", sign: "○", label: text.filter.states.free },
      { tone: "cordoned", sign: "▲", label: text.filter.states.cordoned },
      { tone: "faulty", sign: "✕", label: text.filter.states.faulty },
    ];
  if (shade === "customer")
    return [
      ...customers
        .slice(0, maxLegend)
        .map(({ tone, sign, email, gpus }) => ({ tone, sign, label: words.customers(email, gpus) })),
      ...(customers.length > maxLegend
        ? [{ tone: "customer-other", sign: "+", label: words.moreCustomers(customers.length - maxLegend) }]
        : []),
      { tone: "shared", sign: "*", label: words.shared },
      { tone: "none", sign: "○", label: words.notUsed },
    ];
  return [
    ...[0, 1, 2, 3, 4].map((step) => ({
      ...{ tone: `heat-${step}`, sign: `${2 * step}` },
      label: words.heat(step * 20, step === 4 ? 100 : step * 20 + 19),
    })),
    { tone: "used", sign: "●", label: words.usedUnmeasured },
    { tone: "free", sign: "○", label: words.freeUnmeasured },
  ];
}

const maxNamed = 3;

function Attention({ nodes }: { nodes: readonly Node[] }): ReactNode {
  const [, setView] = useFilter("view");
  const [, setSort] = useFilter("sort");
  const affected = nodes.map((node) => ({ node, issues: issuesOf(node) })).filter(({ issues }) => issues.length > 0);
  if (affected.length === 0)
    return (
      <Text size="sm" c="dimmed">
        <span aria-hidden="true">●</span> {text.attention.none}
      </Text>
    );
  const showAll = () => {
    setView("hosts");
    setSort(`-${text.list.issues}`);
  };
  return (
    <Alert
      color="red"
      variant="light"
      icon={<IconAlertTriangle />}
      p="xs"
      title={text.attention.title(affected.length)}
      role="region"
      aria-label={text.attention.title(affected.length)}
    >
      {affected.slice(0, maxNamed).map(({ node, issues }) => (
        <Text key={node.node_id} size="sm" lineClamp={1} title={issues.join("\n")}>
          <Link to={pathOfNode(node.node_id)} fw={600}>
            {node.name}
          </Link>
          : {issues.join("; ")}
        </Text>
      ))}
      {affected.length > maxNamed && (
        <Button size="compact-xs" variant="light" color="red" onClick={showAll}>
          {text.attention.more(affected.length - maxNamed)}
        </Button>
      )}
    </Alert>
  );
}

function Totals({ nodes }: { nodes: readonly Node[] }): ReactNode {
  const words = text.totals;
  const { hosts, ready, gpus, byState, running, waiting, tokensPerSecond } = useMemo(() => totalsOf(nodes), [nodes]);
  return (
    <Stats
      of={[
        { label: words.hosts, value: words.of(ready, hosts) },
        { label: words.used, value: words.of(byState.used, gpus) },
        {
          label: words.faulty,
          value: count(byState.cordoned + byState.faulty),
          note: words.faultyNote(byState.cordoned, byState.faulty),
        },
        { label: words.running, value: count(running), note: words.waiting(count(waiting)) },
        { label: words.tokens, value: count(Math.round(tokensPerSecond)) },
      ]}
    />
  );
}

function Capacity({ nodes }: { nodes: readonly Node[] }): ReactNode {
  const capacity = useMemo(() => freeCapacity(nodes), [nodes]);
  const words = text.capacity;
  if (capacity.length === 0) return null;
  return (
    <Card withBorder padding="sm" component="section" aria-label={words.title}>
      <Group gap="sm">
        <Text size="sm" fw={650} w={{ base: "100%", sm: "auto" }}>
          {words.title}
        </Text>
        {capacity.map(({ type, free, all, largest }) => (
          <Box key={type} miw={200} flex={1} maw={360}>
            <Group justify="space-between" gap="xs" wrap="nowrap">
              <Text size="sm">{type}</Text>
              <Text size="sm" fw={600}>
                {words.free(free, all)}
              </Text>
            </Group>
            <Progress
              value={(100 * free) / Math.max(1, all)}
              size="xs"
              my={3}
              aria-label={`${type}: ${words.free(free, all)}`}
            />
            <Text size="xs" c="dimmed">
              {words.largest(largest)}
            </Text>
          </Box>
        ))}
      </Group>
    </Card>
  );
}
