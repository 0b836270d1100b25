"""peers_test.py SOURCE LIBRARY STORE WORK - bench/peers on the host device; torch is played by stand_in.py.

The store holds plans for the cells of 16 tokens and a hidden size of 16, head size 8, sequences of 8, f16.
"""
import contextlib
import importlib
import io
import json
import os
import subprocess
import sys

SOURCE, LIBRARY, STORE, WORK = sys.argv[1:]
sys.path[:0] = [os.path.join(SOURCE, *path) for path in (("bench", "peers"), ("tests", "outside"))]
import stand_in

stand_in.install()
import attune_calls
import cells
import peers
import report
import rounds
import torch_side

peers.WARM_MS, torch_side.CEILING = 20.0, 16
SIZES = ["--tokens", "16", "--hidden", "16", "--head-dim", "8", "--seqlen", "8", "--dtype", "f16"]


class Place(attune_calls.Place):
    """attune for real, on the host device; its launches go through the stand-in's clock and graphs"""

    def __init__(self, library, store, device):
        super().__init__(library, store, "host")

    def prepare(self, problem):
        plan = super().prepare(problem)
        stand_in.state.log.append(("prepared", None, False))
        bind = plan.bind

        def bound(*tensors):
            launch = bind(*tensors)

            def run(stream):
                assert stream == stand_in.state.streams[-1], "not torch's current stream"
                stand_in.state.launched("attune", lambda: launch(None))

            return run

        plan.bind = bound
        return plan


def run(*options, store=STORE, **changes):
    """peers.py's exit code, output, errors and JSON"""
    stand_in.state.__init__()
    for name, value in changes.items():
        setattr(stand_in.state, name, value)
    path, output, errors = os.path.join(WORK, "peers.json"), io.StringIO(), io.StringIO()
    if os.path.exists(path):
        os.unlink(path)
    real, attune_calls.Place = attune_calls.Place, Place
    try:
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(errors):
            try:
                code = peers.main(["--library", LIBRARY, "--store", store, "--json", path, "--rounds", "2", *SIZES, *options])
            except SystemExit as end:
                code = end.code
    finally:
        attune_calls.Place = real
    result = None
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            result = json.load(file, parse_constant=lambda name: 1 / 0)
    return code, output.getvalue(), errors.getvalue(), result


def the_struct_layouts_are_the_headers():
    header = importlib.import_module("header")
    interface = header.Interface()
    for path in (("base", "attune_status.h"), ("runtime", "attune.h")):
        with open(os.path.join(SOURCE, *path), encoding="ascii") as file:
            header.read_text(interface, file.read())
    pairs = {"attune_context_options": attune_calls.ContextOptions, "attune_device_info": attune_calls.DeviceInfo,
             "attune_plan_info": attune_calls.PlanInfo, "attune_attention_arguments": attune_calls.AttentionArguments}
    for name, mine in pairs.items():
        its = interface.structs[name]["class"]
        layouts = [[(field, getattr(struct, field).offset, getattr(struct, field).size) for field, *_ in struct._fields_]
                   for struct in (mine, its)]
        assert layouts[0] == layouts[1], "%s: %s" % (name, set(layouts[0]) ^ set(layouts[1]))
    for name, (_, parameters) in attune_calls.FUNCTIONS.items():
        assert len(interface.functions[name].parameters) == len(parameters), name
    rungs = interface.enums["attune_rung"]
    assert {value: name[len("ATTUNE_RUNG_"):].lower() for name, value in rungs.items()} == attune_calls.RUNGS
    assert interface.enums["attune_jit_mode"]["ATTUNE_JIT_FORBID"] == attune_calls.JIT_FORBID


def a_plan_of_the_store_is_right_whatever_the_order_of_axes():
    place = attune_calls.Place(LIBRARY, STORE, "host")
    for causal in (0, 1):
        plan = place.prepare(cells.Cell("f16", 8, causal, 8, 16, 16).problem)
        assert plan.info["rung"] == "exact" and plan.info["candidate"].startswith("attention.forward/")
        for layout in ("bshd", "bhsd"):
            shape = (2, 8, 2, 8) if layout == "bshd" else (2, 2, 8, 8)
            q, k, v, o = (stand_in.randn(*shape) for _ in range(4))
            if layout == "bshd":
                q, k, v, o = (x.transpose(1, 2) for x in (q, k, v, o))
            o.fill_(float("nan"))
            plan.bind(*(torch_side.where(x) for x in (q, k, v, o)))(None)
            assert stand_in.Answer(q, k, v, causal).worst(o) < 1.0, (causal, layout)
        plan.close()
    place.close()


def what_the_store_lacks_is_an_error_and_nothing_is_compiled():
    place = attune_calls.Place(LIBRARY, STORE, "host")
    try:
        place.prepare("attention.forward dtype=f16 heads=2 seqlen_q=8 head_dim=32")
        raise AssertionError("a plan from nowhere")
    except attune_calls.AttuneError as error:
        assert "forbid" in str(error) and "head_dim_qk=32" in str(error), error
    place.close()


def nobody_always_follows_the_same_one():
    names = ["a", "b", "c"]
    orders = [rounds.order_of(names, number) for number in range(6)]
    assert all(sorted(order) == names for order in orders)
    for name in names:
        assert sum(order[0] == name for order in orders) == 2
        before = {order[order.index(name) - 1] for order in orders if order.index(name) > 0}
        assert before == set(names) - {name}, (name, before)


def a_ratio_is_of_the_same_round():
    drift = [1.0, 1.5, 2.0, 3.0]
    samples, others = drift, [2 * x for x in drift]
    assert rounds.ratio(samples, others) == (2.0, 0.0)
    assert rounds.middle([3.0, 1.0, 2.0]) == (2.0, 1.0)
    for bad in (0.0, -1.0, float("nan"), float("inf")):
        assert rounds.ratio([1.0, bad], [1.0, 1.0]) == (None, None) == rounds.ratio([1.0, 1.0], [1.0, bad])
    assert rounds.ratio([1.0], [1.0, 1.0]) == (None, None)


def a_sample_is_long_enough():
    assert [rounds.launches(ms, 5.0) for ms in (0.001, 0.3, 5.0, 70.0, 0.0)] == [1000, 17, 1, 1, 1000]


def all_contenders_are_timed_alike():
    code, text, errors, result = run(speeds={"attune": 2.5, "flash": 5.0, "cudnn": 1.25})
    assert code == 0, errors
    assert [cell["name"] for cell in result["cells"]] == ["f16-8-full-8", "f16-8-causal-8"]
    for cell in result["cells"]:
        assert cell["operations"] == 4 * 2 * 2 * 8 * 8 * 8 // (1 + cell["causal"])
        for name, launches, milliseconds in (("attune", 2, 2.5), ("flash", 1, 5.0), ("cudnn", 4, 1.25)):
            one = cell["contenders"][name]
            assert one["status"] == "right" and one["launches"] == launches and one["milliseconds"] == [milliseconds] * 2
            assert one["error"] < 1.0
        assert cell["contenders"]["attune"]["plan"]["rung"] == "exact"
        assert report.ratio(cell, "flash") == (2.0, 0.0) and report.ratio(cell, "cudnn") == (0.5, 0.0)
    assert result["ceiling"] == {"f16": [2 * 16**3 / 5 / 1e9] * 2}
    assert text.count("2.00 ± 0.00") == 2 and "attune / FlashAttention-2: 2.00" in text, text
    # but for warming up, once by itself and once before each of two captures, nothing was launched outside of a graph
    assert [kind for kind, _, captured in stand_in.state.log if not captured].count("flash") == 2 * 3
    assert {stream for kind, stream, captured in stand_in.state.log if captured} == {7777}
    kinds = [kind for kind, _, captured in stand_in.state.log if captured]
    assert kinds.count("attune") == 2 * (1 + 2) and kinds.count("flash") == 2 * (1 + 1)
    # one by one instead, for all
    code, _, errors, result = run("--eager")
    assert code == 0 and not any(captured for _, _, captured in stand_in.state.log), errors
    assert result["machine"]["launched"] == "one by one"


def a_slower_clock_half_way_changes_no_ratio():
    clock = [0.0]

    def sampler(base):
        def sample():
            clock[0] += base
            return base * (3 if clock[0] > 10 else 1)
        return sample

    samples = rounds.hold({"mine": sampler(0.5), "other": sampler(1.0)}, 13)
    assert {len(each) for each in samples.values()} == {13} and set(samples["mine"]) == {0.5, 1.5}
    assert rounds.ratio(samples["mine"], samples["other"]) == (2.0, 0.0)


def a_wrong_output_has_no_ratio():
    for spoil, told in ((lambda x: x + 0.5, "times the allowed one"), (lambda x: float("nan"), "NaN")):
        code, text, errors, result = run("--gate", "0.5", spoil={"flash": spoil})
        assert code == 1
        for cell in result["cells"]:
            assert cell["contenders"]["flash"]["status"] == "wrong" and report.ratio(cell, "flash") == (None, None)
            assert report.ratio(cell, "cudnn")[0] == 1.0
            assert "%s: FlashAttention-2 is wrong" % cell["name"] in errors and "no ratio" in errors
        assert told in text


def who_stops_writing_is_wrong():
    """though what it wrote before lies there"""
    place = Place.prepare
    Place.prepare = lambda self, problem: forgetful(place(self, problem))
    try:
        code, text, _, result = run()
    finally:
        Place.prepare = place
    assert code == 1 and all(cell["contenders"]["attune"]["status"] == "wrong" for cell in result["cells"]), text


def forgetful(plan):
    bind = plan.bind

    def bound(*tensors):
        calls = [bind(*tensors)]
        nothing = lambda stream: stand_in.state.launched("attune", lambda: None)
        return lambda stream: (calls.pop() if calls else nothing)(stream)

    plan.bind = bound
    return plan


def who_refuses_is_left_out_and_named():
    code, text, _, result = run(refused={"cudnn"})
    assert code == 0 and "cuDNN is refused in f16-8-full-8, f16-8-causal-8: RuntimeError: No viable backend" in text
    assert "second line" not in text
    assert all(report.ratio(cell, "flash")[0] and report.ratio(cell, "cudnn") == (None, None) for cell in result["cells"])
    # attune must be there
    empty = os.path.join(WORK, "empty")
    os.makedirs(empty, mode=0o700, exist_ok=True)
    code, text, errors, result = run(store=empty)
    assert code == 1 and "attune is refused" in errors
    assert all("milliseconds" in cell["contenders"]["flash"] for cell in result["cells"])


def the_gate_is_one_of_each_cell():
    speeds = {"attune": 1.0, "flash": 0.97}
    assert run("--gate", "0.95", speeds=speeds)[0] == 0
    code, _, errors, _ = run("--gate", "0.98", speeds=speeds)
    assert code == 1 and errors.count("0.970 times FlashAttention-2, below 0.98") == 2, errors
    assert run("--gate", "0.95", "--contenders", "attune,cudnn")[0] == 2
    for gate in ("nan", "inf", "-1", "0", "fast"):  # a comparison with the first is never true, so all would pass
        assert run("--gate=" + gate)[0] == 2, gate
    assert run("--seqlen", "7")[0] == 2 and run("--contenders", "attune,fast")[0] == 2 and run("--rounds", "0")[0] == 2


def small_tensors_are_used_in_turn():
    cell = cells.Cell("f16", 8, 0, 8, 16, 16)
    assert cell.tensor_bytes() == 2048 and peers.sets_of(cell, 0) == 1 and peers.sets_of(cell, 2500) == 3
    # three sets; the last of five launches is on the second one, and judged by that one's answer
    code, _, errors, result = run("--causal", "0", "--contenders", "attune,flash", cache_bytes=2500,
                                  speeds={"attune": 1.0, "flash": 1.0})
    assert code == 0, errors
    assert result["cells"][0]["contenders"]["flash"]["launches"] == 5


def measurements_tell_it():
    run(speeds={"flash": 10.0})
    text = subprocess.run([sys.executable, os.path.join(SOURCE, "scripts", "measurements.py"), WORK], check=True, text=True,
                          capture_output=True).stdout
    assert "## Against torch's backends" in text and "| f16 | 8 | yes | 8 |" in text and "2.00 ± 0.00" in text, text


def without_torch_it_says_so():
    done = subprocess.run([sys.executable, "-c", "import sys; sys.path[:0] = [%r]; sys.modules['torch'] = None\n"
                           "import peers; sys.exit(peers.main(['--library', 'none', '--store', 'none']))" %
                           os.path.join(SOURCE, "bench", "peers")], text=True, capture_output=True)
    assert done.returncode == 3 and "torch" in done.stderr, done


def main():
    tests = [the_struct_layouts_are_the_headers, a_plan_of_the_store_is_right_whatever_the_order_of_axes,
             what_the_store_lacks_is_an_error_and_nothing_is_compiled, nobody_always_follows_the_same_one,
             a_ratio_is_of_the_same_round, a_sample_is_long_enough, all_contenders_are_timed_alike,
             a_slower_clock_half_way_changes_no_ratio, a_wrong_output_has_no_ratio, who_stops_writing_is_wrong,
             who_refuses_is_left_out_and_named, the_gate_is_one_of_each_cell, small_tensors_are_used_in_turn,
             measurements_tell_it, without_torch_it_says_so]
    for test in tests:
        test()
        print("passed: " + test.__name__.replace("_", " "))


if __name__ == "__main__":
    main()
