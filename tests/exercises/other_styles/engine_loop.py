"""Slices for the queue, one list for those who go on, and a loop that counts its steps."""

from minivllm.lessons.shown.small_engine import SmallOutput, SmallWork, sample


class SmallEngine:
    def schedule(self):
        num_free = max(self.max_num_seqs - len(self.running), 0)
        newcomers, self.waiting = self.waiting[:num_free], self.waiting[num_free:]
        self.running = self.running + newcomers
        batch = []
        for request in self.running:
            missing = request.token_ids[request.num_computed_tokens :]
            batch.append(SmallWork(request, len(missing)))
        return batch

    def step(self):
        outputs, going_on = [], []
        batch = self.schedule()
        rows = self.model.execute(batch) if batch else []
        for number, (request, num_tokens) in enumerate(batch):
            token_id = sample(rows[number])
            request.output.append(token_id)
            request.num_computed_tokens = request.num_computed_tokens + num_tokens
            if not request.is_finished:
                going_on.append(request)
            outputs.append(SmallOutput(request.name, token_id, request not in going_on))
        self.running = going_on
        return outputs

    def run(self, arrivals):
        steps, number = [], 0
        last = max(arrivals) if arrivals else 0
        while True:
            if number >= last and not (self.waiting or self.running):
                return steps
            number += 1
            for request in arrivals.get(number, []):
                self.waiting.append(request)
            steps.append(self.step())
