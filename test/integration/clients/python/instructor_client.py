import instructor
from anthropic import Anthropic
from openai import OpenAI

from driver import Place, asked, base, chat, key, serve

openai = instructor.from_openai(OpenAI(base_url=base + "/v1", api_key=key, max_retries=0), mode=instructor.Mode.TOOLS)
anthropic = instructor.from_anthropic(Anthropic(base_url=base, api_key=key, max_retries=0))


def place(client, **more):
    return client.chat.completions.create(model=chat, messages=asked, response_model=Place, max_retries=1, **more).model_dump()


serve({"chat schema": lambda: place(openai), "messages schema": lambda: place(anthropic, max_tokens=1000)})
