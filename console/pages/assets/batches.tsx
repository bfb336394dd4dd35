import { Code, Group, PasswordInput, Progress, Select, Stack, Text, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { refusalOf } from "../../api/client.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { useVisitor } from "../../app/visitor.ts";
import { type Batch, batchEndpoints, endOf, isRunning } from "../../domain/batch.ts";
import { checkRequests } from "../../domain/batch-file.ts";
import { text as all } from "../../text/assets.ts";
import { Act } from "../../ui/act.tsx";
import { Choice } from "../../ui/choice.tsx";
import { Command } from "../../ui/code.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { type Fields, Form } from "../../ui/form.tsx";
import { count, duration } from "../../ui/format.ts";
import { Download, LinkButton } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Empty, Page, Section } from "../../ui/page.tsx";
import { Status } from "../../ui/status.tsx";
import { Ago } from "../../ui/time.tsx";
import { contentOf, useFileHead } from "./file-content.ts";

const text = all.batches;
const listPath = "/v1/batches?limit=100";

export function Batches(): ReactNode {
  const [state, setState] = useFilter("state");
  const batches = useGet<Responses["GET /v1/batches"]>(listPath, { everyMs: 5000 });
  return (
    <Page title={text.title} about={text.about}>
      <Loaded query={batches}>
        {({ data }) => (
          <DataTable
            name="batches"
            rows={data.filter((one) => state === "" || isRunning(one) === (state === "running"))}
            columns={columns}
            keyOf={(one) => one.id}
            empty={text.empty}
            emptyAction={<LinkButton to="/files">{text.uploadFirst}</LinkButton>}
            filters={
              data.length > 0 && (
                <Choice label={text.status} options={text.stateFilter} value={state} onChange={setState} />
              )
            }
          />
        )}
      </Loaded>
      <CreateBatch />
    </Page>
  );
}

const columns: readonly Column<Batch>[] = [
  {
    name: text.batch,
    value: (one) => one.id,
    show: (one) => (
      <>
        <Code>{one.id}</Code>
        <Text size="xs" c="dimmed">
          {[one.model, one.endpoint, one.metadata?.["note"]].filter(Boolean).join(" · ")}
        </Text>
      </>
    ),
  },
  { name: text.status, value: (one) => one.status, show: (one) => <Status of={one.status} /> },
  { name: text.progress, value: ({ request_counts: lines }) => lines.completed, show: (one) => <Lines one={one} /> },
  { name: text.tokens, value: ({ usage }) => usage.total_tokens, show: ({ usage }) => count(usage.total_tokens) },
  { name: text.reason, value: reasonOf },
  { name: text.created, value: (one) => one.created_at, show: (one) => <Ago at={one.created_at} /> },
  {
    name: text.took,
    value: (one) => (endOf(one) ?? Date.now() / 1000) - one.created_at,
    show: (one) => {
      const end = endOf(one);
      return end === null ? <Ago at={one.expires_at} /> : duration((end - one.created_at) * 1000);
    },
    isMinor: true,
  },
  actionsColumn((one) => <RowActions one={one} />),
];

function Lines({ one: { request_counts: lines, status } }: { one: Batch }): ReactNode {
  const part = (number: number) => (lines.total === 0 ? 0 : (100 * number) / lines.total);
  const done = text.done(count(lines.completed), count(lines.total));
  return (
    <Stack gap={4} miw={120}>
      <Text size="sm" className="figure">
        {done}
        {lines.failed > 0 && ` · ✕ ${text.failed(count(lines.failed))}`}
      </Text>
      {status !== "validating" && lines.total > 0 && (
        <Progress.Root size="sm">
          <Progress.Section value={part(lines.completed)} color="green" aria-label={done} />
          <Progress.Section value={part(lines.failed)} color="red" aria-label={text.failed(count(lines.failed))} />
        </Progress.Root>
      )}
    </Stack>
  );
}

function reasonOf({ errors }: Batch): string {
  const [first, ...others] = errors?.data ?? [];
  if (!first) return "";
  const message = first.line === null ? first.message : text.line(first.line, first.message);
  return others.length > 0 ? message + text.others(others.length) : message;
}

function RowActions({ one }: { one: Batch }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const { id, output_file_id: output, error_file_id: errors } = one;
  return (
    <Group gap="xs" className="row-actions">
      {output && <Download href={contentOf(output)} name={`${id}.jsonl`} label={text.download} />}
      {errors && <Download href={contentOf(errors)} name={`${id}-errors.jsonl`} label={text.failures} />}
      {isRunning(one) && (
        <Act
          label={text.cancel}
          color="red"
          variant="light"
          command={`stoker batch cancel ${id}`}
          done={text.cancelled}
          disabled={one.status === "cancelling"}
          confirm={{ title: text.cancelTitle, body: text.cancelBody }}
          onAct={async () => {
            await api.call("POST", `/v1/batches/${encodeURIComponent(id)}/cancel`);
            await refresh("/v1/batches");
          }}
        />
      )}
    </Group>
  );
}

/** The server bills a batch to a key and refuses sessions, so the key is asked for. */
function CreateBatch(): ReactNode {
  const refresh = useRefresh();
  const { newKey } = useVisitor();
  const [chosen, setChosen] = useFilter("file");
  const [chosenEndpoint, setEndpoint] = useState<string>("");
  const files = useGet<Responses["GET /v1/files"]>("/v1/files?purpose=batch&limit=1000");
  const file = chosen || (files.data?.data[0]?.id ?? "");
  const head = useFileHead(file).data ?? "";
  // Each request names its interface; the first decides.
  const named = checkRequests(head.split("\n")[0] ?? "").endpoint;
  const endpoint = chosenEndpoint || (batchEndpoints.find((one) => one === named) ?? batchEndpoints[0]);
  const create = async ({ key = "", note = "" }: Fields) => {
    const body = {
      input_file_id: file,
      endpoint,
      completion_window: "24h",
      ...(note === "" ? {} : { metadata: { note } }),
    };
    const answer = await fetch("/v1/batches", {
      method: "POST",
      credentials: "omit",
      headers: { "content-type": "application/json", authorization: `Bearer ${key.trim()}` },
      body: JSON.stringify(body),
    });
    if (!answer.ok) throw await refusalOf(answer);
    await refresh("/v1/batches");
  };
  return (
    <Section title={text.create} about={text.createAbout}>
      <Loaded query={files}>
        {({ data }) =>
          data.length === 0 ? (
            <Empty action={<LinkButton to="/files">{text.uploadFirst}</LinkButton>}>{text.noFiles}</Empty>
          ) : (
            <Form act={text.submit} done={text.submitted} onSend={create}>
              <Group grow align="flex-start" preventGrowOverflow={false}>
                <Select
                  label={text.file}
                  data={data.map(({ id, filename }) => ({ value: id, label: filename }))}
                  value={file}
                  onChange={(value) => {
                    setChosen(value ?? "");
                    setEndpoint("");
                  }}
                  allowDeselect={false}
                  searchable
                  miw={220}
                />
                <Select
                  label={text.endpoint}
                  data={batchEndpoints}
                  value={endpoint}
                  onChange={(value) => setEndpoint(value ?? "")}
                  allowDeselect={false}
                  miw={220}
                />
              </Group>
              <Group grow align="flex-start" preventGrowOverflow={false}>
                <PasswordInput
                  label={text.key}
                  description={newKey ? text.keyKnown : text.keyHint}
                  name="key"
                  autoComplete="off"
                  defaultValue={newKey ?? ""}
                  required
                  miw={220}
                />
                <TextInput label={text.note} description={text.noteHint} name="note" maxLength={512} miw={220} />
              </Group>
              <div>
                <Text size="xs" c="dimmed" mb={2}>
                  {text.command}
                </Text>
                <Command value={`stoker batch create ${file} --endpoint ${endpoint} --wait`} />
              </div>
            </Form>
          )
        }
      </Loaded>
    </Section>
  );
}
