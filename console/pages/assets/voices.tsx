import { Code, FileInput, Group, Loader, Text, Textarea, TextInput } from "@mantine/core";
import { IconPlayerPlay } from "@tabler/icons-react";
import { type ReactNode, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { refusalOf } from "../../api/client.ts";
import { useApi } from "../../api/context.ts";
import { useGet, useRefresh } from "../../api/hooks.ts";
import { inferenceToken } from "../../domain/inference-token.ts";
import { text as all } from "../../text/assets.ts";
import { Act } from "../../ui/act.tsx";
import { Command } from "../../ui/code.tsx";
import { actionsColumn, type Column, DataTable } from "../../ui/data-table.tsx";
import { Dialog } from "../../ui/dialog.tsx";
import { Form } from "../../ui/form.tsx";
import { LinkButton } from "../../ui/link.tsx";
import { Loaded } from "../../ui/notice.tsx";
import { Page } from "../../ui/page.tsx";
import { Ago } from "../../ui/time.tsx";

type Voice = Responses["GET /v1/voices"]["voices"][number];

const text = all.voices;
const listPath = "/v1/voices";
const pathOf = (id: string): string => `${listPath}/${encodeURIComponent(id)}`;
const isOwn = ({ kind }: Voice): boolean => kind !== "preset";

export function Voices(): ReactNode {
  const voices = useGet<Responses["GET /v1/voices"]>(listPath);
  const [sample, setSample] = useState<string>(text.sampleText);
  const [playing, setPlaying] = useState<{ readonly id: string; readonly url: string } | undefined>(undefined);
  const api = useApi();
  const play = async (id: string) => {
    const url = await spoken(await inferenceToken(api, undefined), id, sample);
    setPlaying((before) => {
      if (before) URL.revokeObjectURL(before.url);
      return { id, url };
    });
  };
  const create = (
    <Dialog label={text.create} variant="filled" size="sm">
      {(close) => <CreateVoice onCreated={close} />}
    </Dialog>
  );
  return (
    <Page title={text.title} about={text.about} actions={create}>
      <Loaded query={voices}>
        {({ voices: rows }) => (
          <DataTable
            name="voices"
            rows={rows}
            columns={columnsWith(play)}
            keyOf={(one) => one.voice_id}
            empty={text.empty}
            emptyAction={
              <LinkButton to="/deployments/new?model=hexgrad/Kokoro-82M&task=text-to-speech">
                {text.deployModel}
              </LinkButton>
            }
            filters={
              rows.length > 0 && (
                <TextInput
                  label={text.sample}
                  title={text.sampleHint}
                  value={sample}
                  maxLength={500}
                  onChange={(event) => setSample(event.currentTarget.value)}
                  w={{ base: "100%", sm: 280 }}
                />
              )
            }
          />
        )}
      </Loaded>
      {playing && (
        <Group gap="sm" aria-live="polite">
          <Text size="sm">
            {text.playing} <Code>{playing.id}</Code>
          </Text>
          {/* biome-ignore lint/a11y/useMediaCaption: the text that is spoken stands above. */}
          <audio key={playing.url} src={playing.url} controls autoPlay />
        </Group>
      )}
    </Page>
  );
}

/** URL of the speech in the browser's memory. Throws ApiError. */
async function spoken(token: string, voice: string, words: string): Promise<string> {
  const answer = await fetch(`/v1/text-to-speech/${encodeURIComponent(voice)}`, {
    method: "POST",
    headers: { "content-type": "application/json", authorization: `Bearer ${token}` },
    body: JSON.stringify({ text: words, output_format: "wav" }),
  });
  if (!answer.ok) throw await refusalOf(answer);
  return URL.createObjectURL(await answer.blob());
}

const columnsWith = (play: (id: string) => Promise<void>): readonly Column<Voice>[] => [
  {
    name: text.name,
    value: (one) => one.name,
    show: (one) => (
      <>
        <Text size="sm" fw={600}>
          {one.name}
        </Text>
        <Code>{one.voice_id}</Code>
      </>
    ),
  },
  { name: text.description, value: (one) => one.description },
  { name: text.owner, value: (one) => (isOwn(one) ? text.own : text.preset) },
  {
    name: text.measured,
    value: ({ measured = [] }) => measured.map(({ model }) => model).join(", "),
    isMinor: true,
  },
  {
    name: text.created,
    value: (one) => one.created_at,
    show: (one) => (one.created_at === 0 ? "–" : <Ago at={one.created_at} />),
  },
  actionsColumn((one) => (
    <Group gap="xs" className="row-actions">
      <Act label={text.play} leftSection={<IconPlayerPlay size={14} />} onAct={() => play(one.voice_id)} />
      {isOwn(one) && <OwnVoiceActions one={one} />}
    </Group>
  )),
];

function OwnVoiceActions({ one: { voice_id: id, name, description } }: { one: Voice }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  return (
    <>
      <Dialog label={text.edit} title={text.editTitle(name)}>
        {(close) => (
          <Form
            act={text.save}
            done={text.saved}
            onSend={async (_, form) => {
              await api.call("POST", `${pathOf(id)}/edit`, form);
              await refresh(listPath);
              close();
            }}
          >
            <TextInput label={text.voiceName} name="name" maxLength={100} required defaultValue={name} data-autofocus />
            <Textarea label={text.description} name="description" maxLength={1000} defaultValue={description} />
          </Form>
        )}
      </Dialog>
      <Act
        label={text.delete}
        color="red"
        variant="light"
        command={`stoker voice delete ${id}`}
        done={text.deleted}
        confirm={{ title: text.deleteTitle(name), body: text.deleteBody }}
        onAct={async () => {
          await api.call("DELETE", pathOf(id));
          await refresh(listPath);
        }}
      />
    </>
  );
}

function CreateVoice({ onCreated }: { onCreated: () => void }): ReactNode {
  const api = useApi();
  const refresh = useRefresh();
  const [isSending, setSending] = useState(false);
  const send = async (_: object, form: FormData) => {
    setSending(true);
    try {
      await api.call("POST", `${listPath}/add`, form);
    } finally {
      setSending(false);
    }
    await refresh(listPath);
    onCreated();
  };
  return (
    <Form act={text.submit} done={text.done} onSend={send} beside={isSending && <Loader size="xs" />}>
      <Text size="sm" c="dimmed">
        {text.createAbout}
      </Text>
      <TextInput label={text.voiceName} name="name" maxLength={100} required data-autofocus />
      <Textarea label={text.description} name="description" maxLength={1000} />
      <FileInput
        label={text.recordings}
        description={text.recordingsHint}
        placeholder={text.choose}
        name="files"
        accept="audio/*,.webm"
        multiple
        required
      />
      <Command value="stoker voice create NAME recording.wav" />
    </Form>
  );
}
