// One model: what it costs, what it takes, how to call it.
import { Alert, Anchor, Group, SimpleGrid, Stack, Table, Text } from "@mantine/core";
import { IconAlertTriangle, IconPlayerPlay, IconServerBolt } from "@tabler/icons-react";
import type { ReactNode } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { useParam } from "../../app/router.tsx";
import { serverUrl } from "../../app/visitor.ts";
import { callCode } from "../../domain/call-snippets.ts";
import type { Deployment } from "../../domain/deployment.ts";
import { modelPage, modelPath } from "../../domain/models.ts";
import { tryPage } from "../../domain/playground.ts";
import { text as all } from "../../text/models.ts";
import { Code, CodeTabs, Copy } from "../../ui/code.tsx";
import { count } from "../../ui/format.ts";
import { Link, LinkButton } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Facts, Page, Section } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { Ago } from "../../ui/time.tsx";
import { Features, ModelStatus } from "./labels.tsx";
import { Schemas } from "./schemas.tsx";
import { useCapabilities } from "./use-capabilities.ts";

type ModelRecord = Responses["GET /models/{model_name}"];

const text = all.model;

export function ModelPage(): ReactNode {
  const name = useParam("name");
  const record = useGet<ModelRecord>(modelPath(name));
  const page = record.data && tryPage(record.data);
  return (
    <Page
      title={name}
      about={record.data?.description}
      beside={record.data && <ModelStatus of={record.data} />}
      actions={
        <>
          {record.data?.is_custom_deployable && (
            <LinkButton
              to={`/deployments/new?${new URLSearchParams({ model: name, task: record.data.type })}`}
              variant="default"
              leftSection={<IconServerBolt size={16} />}
            >
              {text.deployOwn}
            </LinkButton>
          )}
          {page && (
            <LinkButton to={page} leftSection={<IconPlayerPlay size={16} />}>
              {all.try}
            </LinkButton>
          )}
        </>
      }
    >
      <Loaded query={record}>{(model) => <Details of={model} />}</Loaded>
    </Page>
  );
}

function Details({ of: model }: { of: ModelRecord }): ReactNode {
  const name = model.model_name;
  const capabilities = useCapabilities()(model);
  const { github_url: code, paper_url: paper, license_url: licence } = model.meta;
  const links = [code, paper, licence].filter((url) => url !== "");
  return (
    <Stack gap="md">
      {model.deprecated !== 0 && (
        <Alert color="yellow" icon={<IconAlertTriangle />}>
          {model.replaced_by ? (
            <Link to={modelPage(model.replaced_by)}>{text.replaced(model.replaced_by)}</Link>
          ) : (
            text.deprecatedOnly
          )}
        </Alert>
      )}
      <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="md">
        <Section title={text.facts}>
          <Facts
            of={[
              {
                label: text.name,
                value: (
                  <span className="copied">
                    <code>{name}</code> <Copy value={name} label={text.copyName} />
                  </span>
                ),
              },
              { label: all.columns.task, value: model.type },
              model.max_tokens > 0 && { label: text.context, value: all.tokens(count(model.max_tokens)) },
              model.max_output_tokens > 0 && { label: text.output, value: all.tokens(count(model.max_output_tokens)) },
              { label: text.features, value: <Features of={capabilities} />, note: text.featuresHint },
              capabilities.parameters !== undefined && {
                label: text.parameters,
                value: text.billions(capabilities.parameters),
              },
              capabilities.licence !== undefined && { label: text.licence, value: capabilities.licence },
              model.quantization !== "" && { label: text.quantization, value: model.quantization },
              { label: text.visible, value: model.public ? text.everyone : text.account },
              { label: text.imported, value: <Ago at={model.import_time} /> },
              model.version !== "" && {
                label: text.version,
                value: (
                  <span className="copied">
                    <code title={model.version}>{model.version.slice(0, 12)}</code> <Copy value={model.version} />
                  </span>
                ),
              },
              model.sunset !== 0 && { label: text.removal, value: <Ago at={model.sunset} /> },
              links.length > 0 && {
                label: text.links,
                value: links.map((url) => (
                  <Anchor key={url} href={url} rel="noreferrer" target="_blank" display="block">
                    {url}
                  </Anchor>
                )),
              },
            ]}
          />
        </Section>
        <Stack gap="md">
          <Section title={text.prices} about={model.pricing.full}>
            <PriceTable of={model.pricing.table} />
          </Section>
          <OwnDeployments name={name} />
        </Stack>
      </SimpleGrid>
      <Section
        title={text.code}
        about={
          <>
            {text.codeAbout} <Link to="/keys">{text.createKey}</Link>
          </>
        }
      >
        <CodeTabs examples={codeOf(model)} />
      </Section>
      <Section title={text.schema} about={text.schemaAbout}>
        <Schemas model={name} variants={model.schemas.map(({ key }) => key)} />
      </Section>
      {model.out_example !== "" && (
        <Section title={text.example}>
          <Code value={model.out_example} />
        </Section>
      )}
    </Stack>
  );
}

function codeOf(model: ModelRecord): Readonly<Record<string, string>> {
  const { examples } = callCode({ url: serverUrl(), model: model.model_name, task: model.type });
  return { ...examples, ...(model.cmdline_inv === "" ? {} : { "Command line": model.cmdline_inv }) };
}

function PriceTable({ of: { columns, rows } }: { of: ModelRecord["pricing"]["table"] }): ReactNode {
  if (rows.length === 0) return null;
  return (
    <Table aria-label={text.prices} verticalSpacing={4}>
      <Table.Thead>
        <Table.Tr>
          {columns.map((column, at) => (
            <Table.Th key={column} className={at === 0 ? "" : "number"}>
              {column}
            </Table.Th>
          ))}
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {rows.map((row) => (
          <Table.Tr key={row[0]}>
            {row.map((cell, at) => (
              <Table.Td key={columns[at]} className={at === 0 ? "" : "number"}>
                {cell}
              </Table.Td>
            ))}
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

function OwnDeployments({ name }: { name: string }): ReactNode {
  const { data } = useGet<readonly Deployment[]>("/deploy/list", { everyMs: 30_000 });
  const own = (data ?? []).filter(({ model_name: model, status }) => model === name && status !== "deleted");
  if (own.length === 0) return null;
  return (
    <Section title={text.deployments}>
      <Stack gap="xs">
        {own.map(({ deploy_id: id, status, created_at: at }) => (
          <Group key={id} gap="xs">
            <Link to={`/deployments/${id}`}>{id}</Link>
            <Status of={status} size="sm" />
            <Text size="xs" c="dimmed">
              <Ago at={at} />
            </Text>
          </Group>
        ))}
      </Stack>
    </Section>
  );
}
