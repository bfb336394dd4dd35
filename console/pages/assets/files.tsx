import { Code, FileInput, Group, Select, Text } from "@mantine/core";
import { type ReactNode, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { checkRequests, type LineFault, maxChecked, maxFileBytes } from "../../domain/batch-file.ts";
import { text as all } from "../../text/assets.ts";
import { Act } from "../../ui/act.tsx";
import { Choice } from "../../ui/choice.tsx";
import { Command } from "../../ui/code.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Form } from "../../ui/form.tsx";
import { bytes } from "../../ui/format.ts";
import { Download, LinkButton } from "../../ui/link.tsx";
import { ErrorNotice, Loaded } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";
import { contentOf, useFileHead } from "./file-content.ts";

type FilePage = Responses["GET /v1/files"];
type StoredFile = FilePage["data"][number];

const text = all.files;
const pathOf = (id: string): string => `/v1/files/${encodeURIComponent(id)}`;

export function Files(): ReactNode {
  const [purpose, setPurpose] = useFilter("purpose");
  const files = useGet<FilePage>("/v1/files?limit=1000", { everyMs: 15_000 });
  const upload = (
    <Dialog label={text.upload} variant="filled" size="sm">
      {(close) => <Upload onDone={close} />}
    </Dialog>
  );
  return (
    <Page title={text.title} about={text.about} actions={upload}>
      <Loaded query={files}>
        {({ data }) => (
          <DataTable
            name="files"
            rows={data.filter((file) => purpose === "" || file.purpose === purpose)}
            columns={columns}
            keyOf={(one) => one.id}
            empty={text.empty}
            filters={
              data.length > 0 && (
                <Choice
                  label={text.purpose}
                  options={{ "": text.all, ...text.purposes }}
                  value={purpose}
                  onChange={setPurpose}
                />
              )
            }
          />
        )}
      </Loaded>
    </Page>
  );
}

const columns: readonly Column<StoredFile>[] = [
  {
    name: text.name,
    value: (one) => one.filename,
    show: (one) => (
      <>
        <Text size="sm" fw={600} style={{ overflowWrap: "anywhere" }}>
          {one.filename}
        </Text>
        <Code>{one.id}</Code>
      </>
    ),
  },
  { name: text.purpose, value: (one) => text.purposes[one.purpose] },
  { name: text.size, value: (one) => one.bytes, show: (one) => bytes(one.bytes) },
  { name: text.created, value: (one) => one.created_at, show: (one) => <Ago at={one.created_at} /> },
  { name: text.expires, value: (one) => one.expires_at, show: (one) => <Ago at={one.expires_at} /> },
  actionsColumn((one) => <RowActions one={one} />),
];

function RowActions({ one: { id, filename, purpose } }: { one: StoredFile }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  return (
    <Group gap="xs" className="row-actions">
      {purpose === "batch" && (
        <LinkButton to={`/batches?file=${encodeURIComponent(id)}`} size="xs" variant="default">
          {text.run}
        </LinkButton>
      )}
      <Dialog label={text.preview} title={text.previewTitle(filename)} width="xl" isReading>
        {() => <Preview id={id} />}
      </Dialog>
      <Download href={contentOf(id)} name={filename} label={text.download} />
      <Act
        label={text.delete}
        color="red"
        variant="light"
        command={`stoker file delete ${id}`}
        done={text.deleted}
        confirm={{ title: text.deleteTitle(filename), body: text.deleteBody }}
        onAct={async () => {
          await api.call("DELETE", pathOf(id));
          await refresh("/v1/files");
        }}
      />
    </Group>
  );
}

const previewLines = 20;

function Preview({ id }: { id: string }): ReactNode {
  const query = useFileHead(id);
  return (
    <Loaded query={query}>
      {(head) => {
        const lines = head.split("\n").slice(0, previewLines).filter(Boolean).map(pretty);
        return lines.length === 0 ? (
          text.previewNone
        ) : (
          <>
            <Code block className="log" tabIndex={0}>
              {lines.join("\n")}
            </Code>
            <Text size="xs" c="dimmed" mt="xs">
              {text.lines(lines.length)}
            </Text>
          </>
        );
      }}
    </Loaded>
  );
}

function pretty(line: string): string {
  try {
    return JSON.stringify(JSON.parse(line), null, 2);
  } catch {
    return line;
  }
}

function faultText(why: LineFault): string {
  return why.is === "no_field" ? text.noField(why.field) : text.notObject;
}

function Upload({ onDone }: { onDone: () => void }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const [state, setState] = useState<{ readonly note?: string; readonly fault?: Error }>({});
  const check = async (file: File | null) => {
    if (!file) return setState({});
    if (file.size > maxFileBytes) return setState({ fault: new Error(text.tooLarge) });
    const { lines, fault } = checkRequests(await file.text());
    setState(
      fault
        ? { fault: new Error(text.badLine(fault.line, faultText(fault.why))) }
        : { note: text.checked(lines, maxChecked) },
    );
  };
  const send = async (_: object, form: FormData) => {
    // The server reads fields before the file.
    const body = new FormData();
    body.set("purpose", "batch");
    body.set("expires_after[anchor]", "created_at");
    body.set("expires_after[seconds]", `${Number(form.get("days") ?? 30) * 86_400}`);
    body.set("file", form.get("file") ?? "");
    await api.call("POST", "/v1/files", body);
    await refresh("/v1/files");
    onDone();
  };
  return (
    <Form act={text.submit} done={text.done} disabled={state.fault !== undefined} onSend={send}>
      <Text size="sm" c="dimmed">
        {text.uploadAbout}
      </Text>
      <FileInput
        label={text.file}
        placeholder={text.choose}
        name="file"
        accept=".jsonl,.json,.txt"
        required
        data-autofocus
        onChange={(file) => void check(file)}
      />
      {state.note && (
        <Text size="sm" role="status">
          ● {state.note}
        </Text>
      )}
      <ErrorNotice error={state.fault} />
      <Select
        label={text.keep}
        name="days"
        defaultValue="30"
        allowDeselect={false}
        data={[1, 7, 14, 30].map((days) => ({ value: `${days}`, label: text.keepDays(days) }))}
        maw={200}
      />
      <Command value="stoker file create requests.jsonl" />
    </Form>
  );
}
