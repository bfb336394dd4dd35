import { Alert, Button, FileInput, Group, Loader, Select, Stack, Table, Text, TextInput } from "@mantine/core";
import { IconMicrophone, IconPlayerStop } from "@tabler/icons-react";
import { type ReactNode, useEffect, useState } from "react";
import { useFilter } from "../../app/place.ts";
import { text } from "../../text/playground.ts";
import { Code } from "../../ui/code.tsx";
import { save } from "../../ui/data-table.tsx";
import { duration } from "../../ui/format.ts";
import { Empty } from "../../ui/page.tsx";
import { useNow } from "../../ui/time.tsx";
import { Bench } from "./bench.tsx";
import { useCall } from "./call-model.ts";
import { CallCode } from "./code-dialog.tsx";
import { RunFigures } from "./figures.tsx";
import { chosenOf, ModelSelect } from "./model-select.tsx";
import type { ModeProps } from "./playground.tsx";
import { useRecorder } from "./use-recorder.ts";

const words = text.transcription;
const formats = ["verbose_json", "text", "srt", "vtt"];
const endings: Readonly<Record<string, string>> = { srt: "srt", vtt: "vtt" };

interface Segment {
  readonly start: number;
  readonly end: number;
  readonly text: string;
}

interface Transcribed {
  readonly text: string;
  readonly format: string;
  /** Seconds of audio. */
  readonly duration?: number;
  readonly segments: readonly Segment[];
}

export function Transcription({ models }: ModeProps): ReactNode {
  const [wanted, setModel] = useFilter("model");
  const model = chosenOf(models, wanted).model_name;
  const [file, setFile] = useState<File | null>(null);
  const [format, setFormat] = useState("verbose_json");
  const [language, setLanguage] = useState("");
  const [prompt, setPrompt] = useState("");
  const recorder = useRecorder(setFile);
  const url = useObjectUrl(file);
  const call = useCall<Transcribed>();
  const { done } = call;
  const options = {
    response_format: format,
    ...(language === "" ? {} : { language }),
    ...(prompt === "" ? {} : { prompt }),
  };
  const run = () => {
    if (!file) return;
    const form = new FormData();
    form.set("file", file);
    for (const [name, value] of Object.entries({ model, ...options })) form.set(name, value);
    call.start(model, "/v1/audio/transcriptions", form, (response) => read(response, format));
  };
  return (
    <Bench
      title={text.modes.transcription}
      run={words.run}
      why={file ? undefined : words.noFile}
      isBusy={call.isBusy}
      error={call.error}
      onRun={run}
      onStop={call.stop}
      code={<CallCode model={model} task="automatic-speech-recognition" body={options} />}
      fields={
        <>
          <ModelSelect models={models} value={model} onChange={setModel} />
          <Group align="flex-end" gap="xs">
            <FileInput
              label={words.file}
              description={words.fileHint}
              placeholder={words.choose}
              accept="audio/*,video/webm,video/mp4"
              clearable
              value={file}
              onChange={setFile}
              style={{ flex: 1, minWidth: 180 }}
            />
            <Microphone recorder={recorder} />
          </Group>
          {recorder.isRefused && <Alert color="yellow">{words.refused}</Alert>}
          {url && (
            // biome-ignore lint/a11y/useMediaCaption: its text is what the page makes.
            <audio src={url} controls aria-label={words.audio} style={{ width: "100%" }} />
          )}
          <Group grow align="flex-start">
            <TextInput
              label={words.language}
              description={words.languageHint}
              maxLength={8}
              value={language}
              onChange={(event) => setLanguage(event.currentTarget.value.trim())}
            />
            <Select
              label={text.speech.format}
              data={formats}
              value={format}
              allowDeselect={false}
              onChange={(value) => setFormat(value ?? "verbose_json")}
            />
          </Group>
          <TextInput
            label={words.prompt}
            description={words.promptHint}
            value={prompt}
            onChange={(event) => setPrompt(event.currentTarget.value)}
          />
        </>
      }
    >
      {call.isBusy && <Loader type="dots" />}
      {!done && !call.isBusy && <Empty>{words.empty}</Empty>}
      {done && (
        <>
          <Code value={done.result.text} label={words.result} />
          <Segments of={done.result.segments} />
          <div>
            <Button
              size="compact-sm"
              variant="default"
              onClick={() => save(`transcript.${endings[done.result.format] ?? "txt"}`, "text/plain", done.result.text)}
            >
              {words.download}
            </Button>
          </div>
          <RunFigures
            requestId={done.requestId}
            totalMs={done.totalMs}
            parts={[
              done.result.duration === undefined ? undefined : words.duration(duration(done.result.duration * 1000)),
            ]}
          />
        </>
      )}
    </Bench>
  );
}

async function read(response: Response, format: string): Promise<Transcribed> {
  if (format !== "verbose_json") return { text: (await response.text()).trim(), format, segments: [] };
  const body = (await response.json()) as Partial<Omit<Transcribed, "format">>;
  return {
    text: body.text?.trim() ?? "",
    format,
    segments: body.segments ?? [],
    ...(body.duration === undefined ? {} : { duration: body.duration }),
  };
}

function Segments({ of }: { of: readonly Segment[] }): ReactNode {
  if (of.length < 2) return null;
  return (
    <Table aria-label={words.segments} verticalSpacing={4}>
      <Table.Thead>
        <Table.Tr>
          <Table.Th className="number">{words.from}</Table.Th>
          <Table.Th>{words.words}</Table.Th>
        </Table.Tr>
      </Table.Thead>
      <Table.Tbody>
        {of.map((one) => (
          <Table.Tr key={`${one.start} ${one.end}`}>
            <Table.Td className="number">{one.start.toFixed(1)} s</Table.Td>
            <Table.Td>{one.text}</Table.Td>
          </Table.Tr>
        ))}
      </Table.Tbody>
    </Table>
  );
}

function Microphone({ recorder }: { recorder: ReturnType<typeof useRecorder> }): ReactNode {
  if (!recorder.isOffered)
    return (
      <Text size="xs" c="dimmed" maw={200}>
        {words.noMicrophone}
      </Text>
    );
  if (recorder.startedAt === undefined)
    return (
      <Button variant="default" leftSection={<IconMicrophone size={16} />} onClick={() => void recorder.start()}>
        {words.record}
      </Button>
    );
  return (
    <Stack gap={2}>
      <Elapsed since={recorder.startedAt} />
      <Button color="red" leftSection={<IconPlayerStop size={16} />} onClick={recorder.stop}>
        {words.stopRecording}
      </Button>
    </Stack>
  );
}

function Elapsed({ since }: { since: number }): ReactNode {
  const now = useNow();
  return (
    <Text size="xs" role="timer">
      {words.recording(`${Math.max(0, Math.round((now - since) / 1000))} s`)}
    </Text>
  );
}

function useObjectUrl(file: File | null): string {
  const [url, setUrl] = useState("");
  useEffect(() => {
    if (!file) {
      setUrl("");
      return;
    }
    const next = URL.createObjectURL(file);
    setUrl(next);
    return () => URL.revokeObjectURL(next);
  }, [file]);
  return url;
}
