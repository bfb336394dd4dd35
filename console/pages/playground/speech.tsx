import { Button, Group, Loader, NumberInput, Select, Text, Textarea } from "@mantine/core";
import { IconDownload } from "@tabler/icons-react";
import { type ReactNode, useEffect, useState } from "react";
import type { Responses } from "../../../proto/gen/responses.ts";
import { useGet } from "../../api/hooks.ts";
import { useFilter } from "../../app/place.ts";
import { text } from "../../text/playground.ts";
import { Link } from "../../ui/link.tsx";
import { Empty } from "../../ui/page.tsx";
import { Bench } from "./bench.tsx";
import { useCall } from "./call-model.ts";
import { CallCode } from "./code-dialog.tsx";
import { RunFigures } from "./figures.tsx";
import { chosenOf, ModelSelect } from "./model-select.tsx";
import type { ModeProps } from "./playground.tsx";

const words = text.speech;
const formats = ["wav", "mp3", "opus", "flac", "pcm"];

interface Spoken {
  readonly url: string;
  readonly format: string;
}

export function Speech({ models }: ModeProps): ReactNode {
  const [wanted, setModel] = useFilter("model");
  const model = chosenOf(models, wanted).model_name;
  const voices = useGet<Responses["GET /v1/voices"]>("/v1/voices");
  const [input, setInput] = useState<string>(words.example);
  const [voice, setVoice] = useFilter("voice");
  const [format, setFormat] = useState("wav");
  const [speed, setSpeed] = useState(1);
  const [seconds, setSeconds] = useState<number | undefined>(undefined);
  const call = useCall<Spoken>();
  const { done } = call;
  // The browser keeps the audio until it is released.
  useEffect(() => () => URL.revokeObjectURL(done?.result.url ?? ""), [done]);
  const body = { input, ...(voice === "" ? {} : { voice }), response_format: format, speed };
  const run = () => {
    setSeconds(undefined);
    call.start(model, "/v1/audio/speech", { model, ...body }, async (response) => ({
      url: URL.createObjectURL(await response.blob()),
      format,
    }));
  };
  return (
    <Bench
      title={text.modes.speech}
      run={words.run}
      isBusy={call.isBusy}
      error={call.error}
      onRun={run}
      onStop={call.stop}
      code={<CallCode model={model} task="text-to-speech" body={body} />}
      fields={
        <>
          <ModelSelect models={models} value={model} onChange={setModel} />
          <Textarea
            label={words.input}
            autosize
            minRows={4}
            maxRows={12}
            required
            value={input}
            onChange={(event) => setInput(event.currentTarget.value)}
          />
          <Select
            label={words.voice}
            description={
              <>
                {words.voiceHint} <Link to="/voices">{words.manageVoices}</Link>
              </>
            }
            inputWrapperOrder={["label", "input", "description", "error"]}
            data={[
              { value: "", label: words.voiceDefault },
              ...(voices.data?.voices ?? []).map(({ voice_id: id, name }) => ({
                value: id,
                label: name === id ? id : `${name} (${id})`,
              })),
            ]}
            value={voice}
            searchable
            allowDeselect={false}
            onChange={(value) => setVoice(value ?? "")}
          />
          <Group grow>
            <NumberInput
              label={words.speed}
              min={0.25}
              max={4}
              step={0.1}
              value={speed}
              onChange={(value) => setSpeed(Number(value) || 1)}
            />
            <Select
              label={words.format}
              data={formats}
              value={format}
              allowDeselect={false}
              onChange={(value) => setFormat(value ?? "wav")}
            />
          </Group>
        </>
      }
    >
      {call.isBusy && <Loader type="dots" />}
      {!done && !call.isBusy && <Empty>{words.empty}</Empty>}
      {done && (
        <>
          {done.result.format === "pcm" ? (
            <Text size="sm">{words.rawFormat}</Text>
          ) : (
            // biome-ignore lint/a11y/useMediaCaption: the text that is spoken stands beside it.
            <audio
              key={done.result.url}
              aria-label={words.result}
              src={done.result.url}
              controls
              autoPlay
              style={{ width: "100%" }}
              onLoadedMetadata={({ currentTarget: { duration } }) =>
                setSeconds(Number.isFinite(duration) ? duration : undefined)
              }
            />
          )}
          <div>
            <Button
              component="a"
              href={done.result.url}
              download={`speech.${done.result.format}`}
              size="compact-sm"
              variant="default"
              leftSection={<IconDownload size={14} />}
            >
              {words.download}
            </Button>
          </div>
          <RunFigures
            requestId={done.requestId}
            totalMs={done.totalMs}
            parts={[seconds === undefined ? undefined : words.duration(`${seconds.toFixed(1)} s`)]}
          />
        </>
      )}
    </Bench>
  );
}
