// Models that the account can call.
import { Badge, Group, Select, Text } from "@mantine/core";
import { IconPlus } from "@tabler/icons-react";
import type { ReactNode } from "react";
import { useFilter } from "../../app/place.ts";
import type { Capabilities } from "../../domain/capabilities.ts";
import { type ModelSummary, modelPage, perMillion } from "../../domain/models.ts";
import { tryPage } from "../../domain/playground.ts";
import { text } from "../../text/models.ts";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { count, usd } from "../../ui/format.ts";
import { Link, LinkButton } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { Features, ModelStatus } from "./labels.tsx";
import { useCapabilities } from "./use-capabilities.ts";
import { useModels } from "./use-models.ts";

const names = text.columns;

export function Models(): ReactNode {
  const models = useModels();
  const [task, setTask] = useFilter("task");
  const capabilities = useCapabilities();
  const deploy = (
    <LinkButton to="/deployments/new" variant="default" leftSection={<IconPlus size={16} />}>
      {text.deployOther}
    </LinkButton>
  );
  return (
    <Page title={text.title} about={text.about} actions={deploy}>
      <Loaded query={models}>
        {(all) => (
          <DataTable
            name="models"
            rows={all.filter(({ type }) => task === "" || type === task)}
            columns={columnsWith(capabilities)}
            keyOf={({ model_name: name }) => name}
            empty={all.length === 0 ? text.empty : text.emptyFilter}
            emptyAction={all.length === 0 ? <LinkButton to="/deployments/new">{text.deploy}</LinkButton> : undefined}
            filters={
              <Select
                aria-label={text.task}
                data={[{ value: "", label: text.allTasks }, ...[...new Set(all.map(({ type }) => type))].sort()]}
                value={task}
                allowDeselect={false}
                onChange={(value) => setTask(value ?? "")}
              />
            }
          />
        )}
      </Loaded>
    </Page>
  );
}

const columnsWith = (capabilitiesOf: (model: ModelSummary) => Capabilities): readonly Column<ModelSummary>[] => [
  {
    name: names.model,
    value: ({ model_name: name, description }) => `${name} ${description}`,
    show: (model) => (
      <div style={{ minWidth: 0, maxWidth: 420 }}>
        <Group gap={6}>
          <Link to={modelPage(model.model_name)} fw={600} style={{ overflowWrap: "anywhere" }}>
            {model.model_name}
          </Link>
          {model.private !== 0 && (
            <Badge size="xs" variant="default" tt="none" title={text.ownHint}>
              {text.own}
            </Badge>
          )}
        </Group>
        {model.description && (
          <Text size="xs" c="dimmed" lineClamp={2}>
            {model.description}
          </Text>
        )}
      </div>
    ),
  },
  { name: names.task, value: ({ type }) => type },
  {
    name: names.input,
    value: (model) => perMillion(model).input ?? "",
    show: (model) => <Price usd={perMillion(model).input} other={model.pricing.short} />,
  },
  {
    name: names.output,
    value: (model) => perMillion(model).output ?? "",
    show: (model) => <Price usd={perMillion(model).output} />,
  },
  {
    name: names.context,
    value: ({ max_tokens: context }) => context,
    show: ({ max_tokens: context }) => (context === 0 ? "–" : text.tokens(count(context))),
  },
  {
    name: names.can,
    value: (model) =>
      Object.entries(capabilitiesOf(model))
        .flatMap(([name, has]) => (has === true ? [name] : []))
        .join(" "),
    show: (model) => <Features of={capabilitiesOf(model)} />,
  },
  {
    name: names.status,
    value: ({ deprecated }) => (deprecated === 0 ? text.available : text.deprecated),
    show: (model) => <ModelStatus of={model} />,
  },
  actionsColumn((model) => {
    const page = tryPage(model);
    return (
      page && (
        <LinkButton to={page} size="compact-xs" variant="light">
          {text.try}
        </LinkButton>
      )
    );
  }),
];

/** `other`: text where the price is not per token. */
function Price({ usd: amount, other = "–" }: { usd: number | undefined; other?: string }): ReactNode {
  if (amount !== undefined) return <span className="figure">{text.perMillion(usd(amount))}</span>;
  return <Text size="sm">{other}</Text>;
}
